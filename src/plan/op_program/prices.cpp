#include "prices.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace gradrecomp::plan {

Prices::Prices(const TrackedStep& step, std::vector<std::int64_t> costs, const Proof& line)
    : step_(&step), costs_(std::move(costs)), price_(line.price) {
  const auto& base_bytes = step.base_bytes();
  weights_up_to_.assign(base_bytes.size(), 0);
  for (const auto& [event, weight] : line.moments) {
    weights_up_to_[event] = weight;
    of_base_ += Int128{weight} * base_bytes[event];
  }
  for (std::size_t t = 1; t < weights_up_to_.size(); ++t)
    weights_up_to_[t] += weights_up_to_[t - 1];
  find_alike();
  find_charged();
  find_least();
}

void Prices::find_alike() {
  last_alike_.resize(weights_up_to_.size());
  for (std::size_t t = last_alike_.size(); t-- > 0;) {
    const bool is_last = t + 1 == last_alike_.size() || weights_up_to_[t + 1] != weights_up_to_[t];
    last_alike_[t] = is_last ? static_cast<Index>(t) : last_alike_[t + 1];
  }
}

Int128 Prices::held(const TrackedValue& x, Index from, Index to) const {
  return to > from ? (weights_up_to_[to] - weights_up_to_[from]) * x.bytes : Int128{0};
}

Int128 Prices::of_kept(const TrackedValue& x) const {
  return held(x, x.life.death, x.life.release);
}

Int128 Prices::of_made(const TrackedValue& x) const {
  return x.demanded ? held(x, x.life.demand, x.end_if_made()) : Int128{0};
}

Int128 Prices::of_left(const TrackedValue& x, Index event, Index end) const {
  return held(x, event, std::min(end, x.end_if_made()));
}

/// One replay makes all that an op makes: the largest that backward asks for is charged with it.
void Prices::find_charged() {
  charged_.assign(costs_.size(), -1);
  for (std::size_t i = 0; i < step_->values().size(); ++i) {
    const TrackedValue& x = step_->value(static_cast<Index>(i));
    if (!x.demanded) continue;
    Index& charged = charged_[x.producer];
    if (charged < 0 || step_->value(charged).bytes < x.bytes) charged = static_cast<Index>(i);
  }
}

void Prices::find_least() {
  least_entering_before_.assign(1, 0);
  for (Index op = 0; op < step_->num_ops(); ++op) {
    Int128 sum = least_entering_before_.back();
    for (const Index i : step_->entering(op)) {
      const TrackedValue& x = step_->value(i);
      if (!x.demanded) continue;
      const bool charged = charged_[x.producer] == i;
      const Int128 made = of_made(x) + (charged ? of_replays(costs_[x.producer]) : Int128{0});
      sum += std::min(of_kept(x), made);
    }
    least_entering_before_.push_back(sum);
  }
}

Int128 Prices::sum_of_weights() const {
  return weights_up_to_.empty() ? Int128{0} : weights_up_to_.back();
}

Int128 Prices::most(std::int64_t max_peak_bytes, std::int64_t max_units) const {
  return sum_of_weights() * max_peak_bytes + of_replays(max_units) - of_base_;
}

double Prices::bytes_per_unit() const {
  const Int128 weights = sum_of_weights();
  return weights > 0 ? static_cast<double>(price_) / static_cast<double>(weights) : 0;
}

std::int64_t Prices::peak_bytes(Int128 least, std::int64_t units) const {
  const Int128 of_peak = least + of_base_ - of_replays(units);
  if (of_peak <= 0 || sum_of_weights() == 0) return 0;
  return static_cast<std::int64_t>((of_peak - 1) / sum_of_weights()) + 1;
}

Int128 Prices::least_before(Index op, const OpenStep& open,
                            const std::vector<Index>& values) const {
  std::vector<std::pair<Index, int>> replays;  // per op, how often at least
  for (std::size_t j = 0; j < values.size(); ++j) {
    const TrackedValue& x = step_->value(values[j]);
    if (open.fates[j] == kKept) continue;
    const Index charged = charged_[x.producer];
    const bool comes_with_entry = charged >= 0 && step_->value(charged).entry < op;
    if (comes_with_entry) continue;
    const int asked = std::popcount(open.asking[j]) + std::popcount(open.again[j]);
    const int times = std::max(asked, x.demanded ? 1 : 0);
    const auto known = std::ranges::find(replays, x.producer, &std::pair<Index, int>::first);
    if (known == replays.end()) {
      replays.emplace_back(x.producer, times);
    } else {
      known->second = std::max(known->second, times);
    }
  }
  Int128 least = least_entering_before_[op];
  for (const auto& [producer, times] : replays) least += of_replays(costs_[producer]) * times;
  return least;
}

}  // namespace gradrecomp::plan
