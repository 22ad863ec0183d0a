#include "option_thinning.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

namespace gradrecomp::plan {
namespace {

// What blocks retain adds up over the chain, and of their peaks one is the highest.
constexpr double kPeakWeight = 0.05;

/// Takes away, again and again, the option that another one replaces at the least loss.
class Thinning {
 public:
  explicit Thinning(std::vector<Option> options) : options_(std::move(options)) {
    const auto [least, most] = std::ranges::minmax_element(options_, {}, &Option::cost);
    const auto bytes = [](const Option& o) { return o.retained_bytes + o.swept_bytes; };
    const auto [low, high] = std::ranges::minmax(options_, {}, bytes);
    const double range = most->cost - least->cost;
    bytes_per_cost_ = range > 0 ? static_cast<double>(bytes(high) - bytes(low)) / range : 0;
    loss_.resize(options_.size());
    for (std::size_t i = 0; i < options_.size(); ++i) find_loss(i);
  }

  /// The cheapest of those that retain least, among the linked ones or the others, stays.
  void keep_least_retaining(bool linked) {
    const auto order = [&](std::size_t i) {
      const Option& option = options_[i];
      return std::tuple(option.linked != linked, option.retained_bytes, option.cost);
    };
    std::size_t least = 0;
    for (std::size_t i = 1; i < options_.size(); ++i) {
      if (order(i) < order(least)) least = i;
    }
    if (options_[least].linked == linked) loss_[least].stays = true;
  }

  std::vector<Option> to(int num_options) {
    auto left = static_cast<std::ptrdiff_t>(options_.size());
    const auto num_staying = std::ranges::count(loss_, true, &Loss::stays);
    const auto most = std::max<std::ptrdiff_t>(num_options, num_staying);
    for (; left > most; --left) drop_least();
    std::vector<Option> kept;
    for (std::size_t i = 0; i < options_.size(); ++i) {
      if (!loss_[i].dropped) kept.push_back(options_[i]);
    }
    return kept;
  }

 private:
  /// The most bytes that doing without an option costs, and the option that then replaces it.
  struct Loss {
    double bytes = 0;
    std::size_t replacement = 0;
    bool dropped = false;
    bool stays = false;
  };

  [[nodiscard]] double regret(const Option& gone, const Option& instead) const {
    if (gone.linked != instead.linked) return std::numeric_limits<double>::infinity();
    const auto worse = [](std::int64_t now, std::int64_t before) {
      return static_cast<double>(now - before);
    };
    return std::max({0.0, worse(instead.retained_bytes, gone.retained_bytes),
                     worse(instead.retained_bytes + instead.swept_bytes,
                           gone.retained_bytes + gone.swept_bytes),
                     kPeakWeight * worse(instead.early_peak_bytes, gone.early_peak_bytes),
                     kPeakWeight * worse(instead.late_peak_bytes, gone.late_peak_bytes),
                     (instead.cost - gone.cost) * bytes_per_cost_});
  }

  void find_loss(std::size_t i) {
    loss_[i].bytes = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < options_.size(); ++j) {
      if (j == i || loss_[j].dropped) continue;
      const double bytes = regret(options_[i], options_[j]);
      if (bytes < loss_[i].bytes) loss_[i] = {bytes, j, false, loss_[i].stays};
    }
  }

  void drop_least() {
    std::size_t least = options_.size();
    for (std::size_t i = 0; i < options_.size(); ++i) {
      if (loss_[i].dropped || loss_[i].stays) continue;
      if (least == options_.size() || loss_[i].bytes < loss_[least].bytes) least = i;
    }
    loss_[least].dropped = true;
    for (std::size_t i = 0; i < options_.size(); ++i) {
      if (!loss_[i].dropped && loss_[i].replacement == least) find_loss(i);
    }
  }

  std::vector<Option> options_;
  std::vector<Loss> loss_;
  double bytes_per_cost_ = 0;
};

}  // namespace

bool as_good(const Option& a, const Option& b) {
  return a.linked == b.linked && a.timing == b.timing && a.retained_bytes <= b.retained_bytes &&
         a.swept_bytes <= b.swept_bytes && a.early_peak_bytes <= b.early_peak_bytes &&
         a.late_peak_bytes <= b.late_peak_bytes && a.cost <= b.cost && a.pass_cost <= b.pass_cost &&
         a.relay_cost <= b.relay_cost && a.relayed_bytes <= b.relayed_bytes &&
         a.relays_on <= b.relays_on && a.num_reaches <= b.num_reaches;
}

void keep_best(std::vector<Option>& options) {
  std::vector<Option> best;
  for (const Option& option : options) {
    const auto covers = [&](const Option& other) { return as_good(other, option); };
    if (std::ranges::any_of(best, covers)) continue;
    std::erase_if(best, [&](const Option& other) { return as_good(option, other); });
    best.push_back(option);
  }
  options = std::move(best);
}

std::vector<Option> thinned_options(std::vector<Option> options, int num_options,
                                    bool keeps_least) {
  Thinning thinning(std::move(options));
  for (const bool linked : {false, true}) {
    if (keeps_least) thinning.keep_least_retaining(linked);
  }
  return thinning.to(num_options);
}

}  // namespace gradrecomp::plan
