#include "region/sequences/plan_trial.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::size_t kFewPairs = 2;
constexpr double kSeveralTimes = 2;

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  return (samples[(samples.size() - 1) / 2] + samples[samples.size() / 2]) / 2;
}

template <typename Seconds>
double median_of(const std::vector<RecordedCosts>& steps, Seconds seconds) {
  std::vector<double> samples;
  for (const RecordedCosts& times : steps) samples.push_back(seconds(times));
  return median(std::move(samples));
}

}  // namespace

bool PlanTrial::begin_step() {
  ++num_begun_;
  if (num_begun_ > kMostSteps) is_over_ = true;
  const bool is_even = (num_begun_ - kNumFirst) % 2 == 0;
  return is_over_ || !compares_ || num_begun_ <= kNumFirst || is_even;
}

void PlanTrial::add(const RecordedCosts& times) { recorded_.push_back(times); }

void PlanTrial::add_unrecorded(const UnrecordedCosts& costs) { unrecorded_.push_back(costs); }

std::optional<MeasuredCosts> PlanTrial::conclude(double max_overhead) {
  if (is_over_ || recorded_.size() < kNumFirst) return std::nullopt;
  // A recorded step comes last, whose backward pass may come after the next step has begun.
  const std::size_t num_pairs = std::min(unrecorded_.size(), recorded_.size() - kNumFirst);
  if (compares_ && num_pairs < kFewPairs) return std::nullopt;
  const MeasuredCosts found = costs();
  const bool is_clear = found.recording_overhead() > kSeveralTimes * max_overhead;
  if (compares_ && num_pairs < kMostPairs && !is_clear) return std::nullopt;
  is_over_ = true;
  return found.step_seconds > 0 ? std::optional(found) : std::nullopt;
}

// What else runs on the machine makes steps longer, never shorter. So two kinds of steps that came
// in turn are compared by their shortest.
PlanTrial::Forward PlanTrial::forward() const {
  const auto seconds = [](const RecordedCosts& times) { return times.forward_seconds; };
  if (!compares_) {
    const double median = median_of(recorded_, seconds);
    return {median, median};
  }
  double recorded = std::numeric_limits<double>::infinity();
  for (std::size_t i = kNumFirst; i < recorded_.size(); ++i) {
    recorded = std::min(recorded, seconds(recorded_[i]));
  }
  return {recorded, std::min(recorded, unrecorded_seconds())};
}

// Nothing looks at a step that is not recorded. One that leaves less behind than the others was
// another, shorter one.
double PlanTrial::unrecorded_seconds() const {
  constexpr double kAsMuch = 0.99;
  const auto growth =
      std::ranges::max(unrecorded_, {}, &UnrecordedCosts::growth_bytes).growth_bytes;
  double seconds = std::numeric_limits<double>::infinity();
  for (const UnrecordedCosts& step : unrecorded_) {
    const bool is_same =
        static_cast<double>(step.growth_bytes) >= kAsMuch * static_cast<double>(growth);
    if (is_same) seconds = std::min(seconds, step.forward_seconds);
  }
  return seconds;
}

MeasuredCosts PlanTrial::costs() const {
  const double backward = median_of(recorded_, [](const RecordedCosts& times) {
    return times.backward_seconds - times.hook_seconds;
  });
  const double after_forward = median_of(recorded_, [](const RecordedCosts& times) {
    return times.hook_seconds - times.replay_seconds - times.arrival_seconds +
           times.release_seconds;
  });
  const auto [recorded, plain] = forward();
  return {
      .step_seconds = plain + backward,
      .recording_seconds = recorded - plain + after_forward,
      .replay_seconds =
          median_of(recorded_, [](const RecordedCosts& times) { return times.replay_seconds; }),
      .arrival_seconds =
          median_of(recorded_, [](const RecordedCosts& times) { return times.arrival_seconds; }),
      .departure_seconds =
          median_of(recorded_, [](const RecordedCosts& times) { return times.departure_seconds; }),
      .num_replayed_ops = median_of(
          recorded_,
          [](const RecordedCosts& times) { return static_cast<double>(times.num_replayed_ops); }),
      .tape_bytes = std::ranges::max(recorded_, {}, &RecordedCosts::tape_bytes).tape_bytes};
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
