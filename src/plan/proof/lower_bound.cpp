#include "lower_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/graph/choosable_values.h"
#include "proven_line.h"

// The weights of a line follow the loads of the solutions (exponentiated gradient): moments at
// which the relaxed plan is high get more. Source: Held and Karp, The traveling-salesman problem
// and minimum spanning trees, 1971, for the relaxation; Kivinen and Warmuth, Exponentiated
// gradient, 1997, for the steps.

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1 - 1e-9;  // sums of many doubles must not prove too much

}  // namespace

LowerBound::LowerBound(const Graph& graph, const ReplayCost& replay_cost)
    : graph_(&graph), relaxation_(graph) {
  for (const Op& op : graph.ops) cost_.push_back(replay_cost.overhead(op));
  choose_moments();
  scale_bytes_ = static_cast<double>(1 + saved_bytes(graph));
  for (const Index t : moments_) {
    base_.push_back(static_cast<double>(relaxation_.base_bytes()[t]) / scale_bytes_);
  }
  if (!moments_.empty()) add_floor();
  begin_with_plain_loads();
}

void LowerBound::begin_with_plain_loads() {
  constexpr double kSharpness = 30;
  const std::vector<std::uint8_t> none(graph_->ops.size(), 0);
  log_weights_.clear();
  for (const double load : loads_of(none).loads) log_weights_.push_back(kSharpness * load);
}

/// The highest event of every few.
void LowerBound::choose_moments() {
  constexpr std::size_t kStride = 6;
  const std::vector<std::int64_t>& bytes = relaxation_.base_bytes();
  for (std::size_t begin = 0; begin < bytes.size(); begin += kStride) {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(kStride, bytes.size() - begin);
    const auto highest = std::max_element(first, first + static_cast<std::ptrdiff_t>(count));
    const auto moment = static_cast<Index>(highest - bytes.begin());
    moments_after_.resize(moment, static_cast<Index>(moments_.size()));
    moments_.push_back(moment);
  }
  moments_after_.resize(bytes.size(), static_cast<Index>(moments_.size()));
}

Index LowerBound::moment_after(Index event) const {
  return event == Life::kNever ? event : moments_after_[event];
}

/// Where all is replayed, each moment is at its lowest: the highest of these is the floor.
void LowerBound::add_floor() {
  const auto lowest = loads_of(std::vector<std::uint8_t>(graph_->ops.size(), 1)).loads;
  const auto highest = std::ranges::max_element(lowest);
  Line floor{.price = 0, .value = *highest, .weights = std::vector<double>(lowest.size(), 0)};
  floor.weights[static_cast<std::size_t>(highest - lowest.begin())] = 1;
  lines_.push_back(std::move(floor));
}

double LowerBound::share(Index v) const {
  return static_cast<double>(graph_->values[v].bytes) / scale_bytes_;
}

void LowerBound::set_weights() {
  const double highest = std::ranges::max(log_weights_);
  weights_.clear();
  double sum = 0;
  for (const double log_weight : log_weights_) {
    weights_.push_back(std::exp(log_weight - highest));
    sum += weights_.back();
  }
  weights_before_.assign(1, 0);
  for (double& weight : weights_) {
    weight /= sum;
    weights_before_.push_back(weights_before_.back() + weight);
  }
}

LowerBound::Relaxed LowerBound::loads_of(const std::vector<std::uint8_t>& replayed) const {
  Relaxed relaxed{0, std::vector<double>(base_.size() + 1, 0)};
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    relaxed.overhead += replayed[i] != 0 ? cost_[i] : 0;
  }
  relaxation_.each_held(replayed, [&](Index v, Index from, Index to) {
    const Index first = moment_after(from);
    const Index end = moment_after(to);
    if (first >= end) return;
    relaxed.loads[first] += share(v);
    relaxed.loads[end] -= share(v);
  });
  double sum = 0;
  for (std::size_t m = 0; m < base_.size(); ++m) {
    sum += relaxed.loads[m];
    relaxed.loads[m] = base_[m] + sum;
  }
  relaxed.loads.pop_back();
  return relaxed;
}

/// Solves the relaxation for the current weights and notes the line it proves.
LowerBound::Relaxed LowerBound::relax(double price) {
  const auto held = [&](Index v, Index from, Index to) {
    const Index first = moment_after(from);
    const Index end = moment_after(to);
    return end > first ? share(v) * (weights_before_[end] - weights_before_[first]) : 0;
  };
  double always = 0;
  for (std::size_t m = 0; m < base_.size(); ++m) always += weights_[m] * base_[m];
  auto least = relaxation_.least<double>(held, [&](Index op) { return price * cost_[op]; });
  lines_.push_back({price, always + least.cost, weights_});
  least_solutions_.push_back(std::move(least.replayed));
  return loads_of(least_solutions_.back());
}

void LowerBound::tighten_anew(double overhead, int num_cuts) {
  begin_with_plain_loads();
  tighten(overhead, num_cuts);
}

void LowerBound::tighten(double overhead, int num_cuts) {
  double low = 0;
  double high = 0;
  double price = 1;
  least_solutions_.clear();
  for (int i = 0; i < num_cuts; ++i) {
    set_weights();
    const Relaxed relaxed = relax(price);
    const bool too_dear = relaxed.overhead > overhead;
    (too_dear ? low : high) = price;
    const double step = std::sqrt(8.0 / (i + 8.0));
    if (low == 0 || high == 0) {
      price *= too_dear ? 4 : 0.25;
    } else if (i < num_cuts / 3) {
      price = std::sqrt(low * high);
    } else {
      price *= std::exp((too_dear ? 0.2 : -0.2) * step);
    }
    constexpr double kRate = 20;
    for (std::size_t m = 0; m < base_.size(); ++m)
      log_weights_[m] += kRate * step * relaxed.loads[m];
  }
}

double LowerBound::Line::peak(double overhead) const {
  return kRounding * value - price * overhead;
}

double LowerBound::Line::overhead(double peak) const {
  return price > 0 ? (kRounding * value - peak) / price : 0;
}

std::int64_t LowerBound::peak_bytes(double overhead) const {
  double highest = 0;
  for (const Line& line : lines_) highest = std::max(highest, line.peak(overhead));
  return static_cast<std::int64_t>(highest * scale_bytes_);
}

std::size_t LowerBound::best_line_at_overhead(double overhead) const {
  const auto peak = [&](const Line& line) { return line.peak(overhead); };
  return static_cast<std::size_t>(std::ranges::max_element(lines_, {}, peak) - lines_.begin());
}

std::size_t LowerBound::best_line_at_peak(std::int64_t peak_bytes) const {
  const double peak = static_cast<double>(peak_bytes) / scale_bytes_;
  const auto overhead = [&](const Line& line) { return line.overhead(peak); };
  return static_cast<std::size_t>(std::ranges::max_element(lines_, {}, overhead) - lines_.begin());
}

Proof LowerBound::proof_of(std::size_t line) const {
  constexpr std::int64_t kLeastWeight = 1 << 16;  // what is left out makes a line hardly any lower
  const auto& [price, value, weights] = lines_[line];
  Proof proof;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    const auto weight = std::llround(std::ldexp(weights[m], ProvenLine::kWeightBits));
    if (weight >= kLeastWeight) proof.moments.push_back({moments_[m], weight});
  }
  const double highest = static_cast<double>(ProvenLine::kHighestPrice);
  proof.price = std::llround(std::min(price * scale_bytes_, highest));
  return proof;
}

}  // namespace gradrecomp::plan
