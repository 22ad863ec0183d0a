#include "line_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "proven_line.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostForALine = 20'000'000;  // partial plans

}  // namespace

LineFit::LineFit(OpProgram& program, const Proof& first, std::int64_t plain_peak_bytes)
    : program_(program),
      scale_bytes_(static_cast<double>(plain_peak_bytes)),
      price_(static_cast<double>(first.price)),
      best_{.line = first} {
  choose_moments(first);
}

/// The highest event of every few. They begin with the weights of the line's moments nearest to
/// them, and a little.
void LineFit::choose_moments(const Proof& first) {
  constexpr std::size_t kStride = 3;
  constexpr double kLittle = 1e-7;
  const std::vector<std::int64_t>& bytes = program_.base_bytes();
  for (std::size_t begin = 0; begin < bytes.size(); begin += kStride) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(kStride, bytes.size() - begin);
    const auto highest = std::max_element(from, from + static_cast<std::ptrdiff_t>(count));
    moments_.push_back(static_cast<Index>(highest - bytes.begin()));
  }
  std::vector<double> weights(moments_.size(), kLittle);
  for (const auto& [event, weight] : first.moments) {
    const auto place = std::min(static_cast<std::size_t>(event) / kStride, weights.size() - 1);
    weights[place] += std::ldexp(static_cast<double>(weight), -ProvenLine::kWeightBits);
  }
  for (const double weight : weights) log_weights_.push_back(std::log(weight));
}

Proof LineFit::current() const {
  constexpr std::int64_t kLeastWeight = 1 << 24;
  const double highest = std::ranges::max(log_weights_);
  double sum = 0;
  for (const double log_weight : log_weights_) sum += std::exp(log_weight - highest);
  Proof line{.price = std::llround(price_)};
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    const double weight = std::exp(log_weights_[m] - highest) / sum;
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
  while (work_left_ > 0 && best_.peak_bytes < goal.peak_bytes) {
    const Proof line = current();
    program_.follow(line);
    const auto least = least_under(line, goal);
    if (least.gave_up || !least.exists) break;
    note(least.least_peak_bytes, line);
    weigh(least, goal.units);
  }
  return best_;
}

// The nearer a limit is to what is proven, the fewer partial plans are within it. So it rises with
// that, by a hundredth of the plain peak.
OpProgram::Priced LineFit::least_under(const Proof& line, const Goal& goal) {
  const auto rise = static_cast<std::int64_t>(scale_bytes_ / 100) + 1;
  for (;;) {
    const auto limit = std::min(goal.peak_bytes - 1, best_.peak_bytes + rise);
    auto least = program_.find_priced({limit, goal.units}, kMostForALine);
    work_left_ -= least.work;
    if (least.exists) return least;
    note(limit + 1, line);
    if (best_.peak_bytes >= goal.peak_bytes) return least;
  }
}

/// Moments at which the cheapest partial plan holds much get more weight, and replays a higher
/// price if it has too many of them.
void LineFit::weigh(const OpProgram::Priced& least, std::int64_t units) {
  constexpr double kRate = 20;
  constexpr double kPriceRate = 0.1;
  const double step = std::sqrt(8.0 / (num_steps_++ + 8.0));
  price_ *= std::exp((least.units > units ? kPriceRate : -kPriceRate) * step);
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    const double load = static_cast<double>(least.loads[moments_[m]]) / scale_bytes_;
    log_weights_[m] += kRate * step * load;
  }
}

}  // namespace gradrecomp::plan
