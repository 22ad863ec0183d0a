#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "gradrecomp/version.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Decides which steps of a region to profile, so that each op sequence that comes again is
/// profiled once, soon, and sequences that never do are not.
///
/// A step is known for what it is only when it leaves its plan, too late to be profiled: a profile
/// is of a whole step. So when a sequence was missed, the step after it is profiled, as sequences
/// mostly come in runs. When it was missed twice, it is expected after as many steps as lay
/// between; when even that missed it, all steps are profiled until it comes, or for a while. Pauses
/// between those whiles double.
class ProfileSchedule {
 public:
  /// Whether the step that begins now is to be profiled.
  bool begin_step();
  /// Notes that a step with the sequence of that signature ended without a plan or a profile.
  void missed(std::uint64_t signature);
  /// Notes that the sequence of that signature has been profiled.
  void profiled(std::uint64_t signature);
  /// Notes that a step which was to be profiled was given up. The next one is in its place.
  void gave_up() { single_.insert(step_ + 1); }
  /// Notes that a step followed a plan.
  void followed() { num_new_in_row_ = 0; }

 private:
  struct Missed {
    std::int64_t last_step = 0;
    std::int64_t times = 0;
  };

  std::int64_t step_ = 0;
  std::int64_t all_until_ = 0;                // steps up to this one are profiled
  std::unordered_set<std::uint64_t> sought_;  // signatures, by profiling all
  std::set<std::int64_t> single_;
  std::unordered_map<std::uint64_t, Missed> missed_;
  std::int64_t num_new_in_row_ = 0;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
