#include "region/trials.h"

#include <cstddef>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::size_t kMostTrials = 4096;
// Then one is recorded, to see whether its sequence is still the same.
constexpr std::int64_t kMostUnrecorded = 31;

}  // namespace

Trials::Turn Trials::begin_step(const KnownSequence& known) {
  if (!known.plan) return {};
  PlanTrial* const trial = trial_of(known);
  const bool trial_records = trial == nullptr || trial->begin_step();
  return {.is_recorded = !goes_unrecorded(known, trial_records),
          .is_timed = trial != nullptr && !trial->is_over()};
}

/// The one that its plan is going through; null if there is none.
PlanTrial* Trials::trial_of(const KnownSequence& known) {
  auto trial = trials_.find(known.signature());
  if (trial == trials_.end()) {
    const auto begun = planner_.trial_of(known);
    if (!begun) return nullptr;
    if (trials_.size() == kMostTrials) trials_.clear();
    trial = trials_.emplace(known.signature(), *begun).first;
  }
  return trial->second.is_over() ? nullptr : &trial->second;
}

// Steps of another sequence would hold all that they save.
bool Trials::goes_unrecorded(const KnownSequence& known, bool trial_records) const {
  if (num_followed_in_row_ < PlanTrial::kNumFirst) return false;
  return known.records_nothing ? num_unrecorded_in_row_ < kMostUnrecorded : !trial_records;
}

void Trials::ended(bool followed_plan) {
  num_unrecorded_in_row_ = 0;
  num_followed_in_row_ = followed_plan ? num_followed_in_row_ + 1 : 0;
}

void Trials::ended_unrecorded(bool is_another) {
  ++num_unrecorded_in_row_;
  if (is_another) num_followed_in_row_ = 0;
}

void Trials::add_unrecorded(std::uint64_t signature, const UnrecordedCosts& costs) {
  const auto trial = trials_.find(signature);
  if (trial != trials_.end()) trial->second.add_unrecorded(costs);
}

std::optional<MeasuredCosts> Trials::add(std::uint64_t signature, const RecordedCosts& times) {
  const auto trial = trials_.find(signature);
  if (trial == trials_.end()) return std::nullopt;
  trial->second.add(times);
  return trial->second.conclude(planner_.max_overhead());
}

bool Trials::is_running(std::uint64_t signature) const {
  const auto trial = trials_.find(signature);
  return trial != trials_.end() && !trial->second.is_over();
}

void Trials::begin_again(std::uint64_t signature) {
  if (is_running(signature)) trials_.erase(signature);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
