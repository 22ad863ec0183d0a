#include "prices.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gradrecomp::plan {

Prices::Prices(const TrackedStep& step, std::vector<std::int64_t> costs, const Proof& line)
    : costs_(std::move(costs)), price_(line.price) {
  const auto& base_bytes = step.base_bytes();
  weights_up_to_.assign(base_bytes.size(), 0);
  for (const auto& [event, weight] : line.moments) {
    weights_up_to_[event] = weight;
    of_base_ += Int128{weight} * base_bytes[event];
  }
  for (std::size_t t = 1; t < weights_up_to_.size(); ++t)
    weights_up_to_[t] += weights_up_to_[t - 1];
  find_alike();
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

}  // namespace gradrecomp::plan
