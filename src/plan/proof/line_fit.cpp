#include "line_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "proven_line.h"

namespace gradrecomp::plan {
namespace {

constexpr int kMostLines = 60;
constexpr std::int64_t kMostForALine = 80'000'000;  // partial plans

}  // namespace

LineFit::LineFit(OpProgram& program, const Proof& first, std::int64_t plain_peak_bytes)
    : program_(program),
      scale_bytes_(static_cast<double>(plain_peak_bytes)),
      weights_{.price = static_cast<double>(first.price)},
      best_{.line = first} {
  choose_moments(first);
}

/// The highest event of every few. They begin with the weights of the line's moments nearest to
/// them, and a little.
void LineFit::choose_moments(const Proof& first) {
  constexpr std::size_t kMostMoments = 400;
  constexpr double kLittle = 1e-7;
  const std::vector<std::int64_t>& bytes = program_.base_bytes();
  const std::size_t stride = 3 + bytes.size() / kMostMoments;
  for (std::size_t begin = 0; begin < bytes.size(); begin += stride) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(stride, bytes.size() - begin);
    const auto highest = std::max_element(from, from + static_cast<std::ptrdiff_t>(count));
    moments_.push_back(static_cast<Index>(highest - bytes.begin()));
  }
  std::vector<double> weights(moments_.size(), kLittle);
  for (const auto& [event, weight] : first.moments) {
    const auto place = std::min(static_cast<std::size_t>(event) / stride, weights.size() - 1);
    weights[place] += std::ldexp(static_cast<double>(weight), -ProvenLine::kWeightBits);
  }
  for (const double weight : weights) weights_.logs.push_back(std::log(weight));
}

Proof LineFit::current() const {
  constexpr std::int64_t kLeastWeight = std::int64_t{1} << (ProvenLine::kWeightBits - 10);
  const double highest = std::ranges::max(weights_.logs);
  double sum = 0;
  for (const double log_weight : weights_.logs) sum += std::exp(log_weight - highest);
  const double highest_price = static_cast<double>(ProvenLine::kHighestPrice);
  Proof line{.price = std::llround(std::min(weights_.price, highest_price))};
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    const double weight = std::exp(weights_.logs[m] - highest) / sum;
    const auto whole = std::llround(std::ldexp(weight, ProvenLine::kWeightBits));
    if (whole >= kLeastWeight) line.moments.push_back({moments_[m], whole});
  }
  return line;
}

void LineFit::note(std::int64_t peak_bytes, const Proof& line) {
  if (peak_bytes <= best_.peak_bytes) return;
  best_.peak_bytes = peak_bytes;
  best_.line = line;
}

LineFit::Fitted LineFit::run(const Goal& goal, std::int64_t most_work) {
  work_left_ = most_work;
  best_.peak_bytes = goal.proven_peak_bytes;
  for (int i = 0; i < kMostLines && work_left_ > 0 && best_.peak_bytes < goal.peak_bytes; ++i) {
    const Proof line = current();
    program_.follow(line);
    if (i == 0) num_visits_ = num_visits_within(goal, work_left_ / kMostLines);
    auto least = least_under(line, goal);
    if (least.gave_up || !least.exists) break;
    note(least.least_peak_bytes, line);
    step(std::move(least), goal.units);
  }
  return best_;
}

/// As many as can be told apart with so much work for a line.
int LineFit::num_visits_within(const Goal& goal, std::int64_t work) {
  constexpr int kFewest = 2;
  for (int num_visits = kMostVisits; num_visits > kFewest; --num_visits) {
    const auto least = program_.find_priced(next_limits(goal), {work, num_visits});
    work_left_ -= least.work;
    if (!least.gave_up) return num_visits;
  }
  return kFewest;
}

// The nearer a limit is to what is proven, the fewer partial plans are within it. So it rises with
// that, by a hundredth of the plain peak.
PlanLimits LineFit::next_limits(const Goal& goal) const {
  const auto rise = static_cast<std::int64_t>(scale_bytes_ / 100) + 1;
  return {std::min(goal.peak_bytes - 1, best_.peak_bytes + rise), goal.units};
}

OpProgram::Priced LineFit::least_under(const Proof& line, const Goal& goal) {
  for (;;) {
    const PlanLimits limits = next_limits(goal);
    auto least = program_.find_priced(limits, {kMostForALine, num_visits_});
    work_left_ -= least.work;
    if (least.exists) return least;
    note(limits.peak_bytes + 1, line);
    if (best_.peak_bytes >= goal.peak_bytes) return least;
  }
}

/// Moments at which the cheapest partial plan holds much get more weight, and replays a higher
/// price if it has too many of them. A step that has led to much worse is taken back, and a smaller
/// one made.
void LineFit::step(OpProgram::Priced least, std::int64_t units) {
  constexpr double kMuch = 0.015;
  constexpr double kPriceRate = 0.005;
  constexpr double kSlowing = 0.98;
  const auto much = static_cast<std::int64_t>(kMuch * scale_bytes_);
  const bool is_first = base_.logs.empty();
  if (is_first || least.least_peak_bytes > base_least_.least_peak_bytes - much) {
    base_ = weights_;
    base_least_ = std::move(least);
    rate_ *= kSlowing;
  } else {
    rate_ /= 2;
  }
  weights_ = base_;
  weights_.price *= std::exp((base_least_.units > units ? kPriceRate : -kPriceRate) * rate_);
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    const double load = static_cast<double>(base_least_.loads[moments_[m]]) / scale_bytes_;
    weights_.logs[m] += rate_ * load;
  }
}

}  // namespace gradrecomp::plan
