#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// The verdict of a kept set on a value, as recorders read it.
enum class Verdict : std::uint8_t {
  drop,
  keep,
  keep_as_source,  ///< since its replay was found to differ
};

/// What a recorder does with the values it sees: follow a kept set, or hold and close windows.
struct RecordingPlan {
  /// Running hash after each call of the sequence the kept set was made for; null: no plan.
  std::shared_ptr<const std::vector<std::uint64_t>> sequence;
  /// A Verdict on each value of that sequence.
  std::shared_ptr<const std::vector<std::uint8_t>> keep;
  /// What replays of that sequence cache; null: every value with handles.
  SweepPlans sweeps = {};
  /// Which kept values of that sequence go to host memory; null: none.
  Offloads offloads = {};
  /// Per op of that sequence: how verification found it to be made again; null: by its call.
  std::shared_ptr<const std::vector<ReplayMethod>> methods = {};
  /// Values of that sequence whose contents replays depend on, ascending; null: not known yet.
  std::shared_ptr<const std::vector<ValueId>> guarded = {};
  /// All ops of that sequence ran in one NumericMode when it was profiled.
  bool has_one_mode = false;

  [[nodiscard]] Verdict verdict_on(ValueId value) const {
    if (keep == nullptr || static_cast<std::size_t>(value) >= keep->size()) return Verdict::drop;
    return static_cast<Verdict>((*keep)[value]);
  }
  [[nodiscard]] bool guards(ValueId value) const {
    return guarded == nullptr || std::ranges::binary_search(*guarded, value);
  }
};

}  // namespace gradrecomp::tape
