#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What a recorder does with a value once backward may want it.
enum class Retention : std::uint8_t {
  drop,
  drop_as_written,  ///< the program has overwritten it by hand: see whether it does so again
  keep,
  keep_as_source,  ///< since its replay was found to differ
};
using Retentions = std::vector<Retention>;

/// Of a value that must be kept, since its replay was found to differ, or that a plan keeps.
inline Retention retention(bool must_keep, bool is_kept) {
  if (must_keep) return Retention::keep_as_source;
  return is_kept ? Retention::keep : Retention::drop;
}

/// Of a value that the program has overwritten by hand, until when a plan may have kept it.
inline void note_as_written(Retention& retention) {
  if (retention != Retention::keep_as_source) retention = Retention::drop_as_written;
}

/// What a recorder does with the values it sees: follow a kept set, or hold and close windows.
struct RecordingPlan {
  /// Running hash after each call of the sequence the kept set was made for; null: no plan.
  std::shared_ptr<const std::vector<std::uint64_t>> sequence;
  /// Of each value of that sequence.
  std::shared_ptr<const Retentions> retentions;
  /// What replays of that sequence cache; null: every value with handles.
  SweepPlans sweeps = {};
  /// Which kept values of that sequence are away for a while; null: none.
  Absences absences = {};
  /// Per op of that sequence: how verification found it to be made again; null: by its call.
  std::shared_ptr<const std::vector<ReplayMethod>> methods = {};
  /// Per op of that sequence: the position in it of the call that puts the op on the tape; null:
  /// not needed, as nothing is away.
  std::shared_ptr<const std::vector<std::int32_t>> calls = {};
  /// Values of that sequence whose contents replays depend on, ascending; null: not known yet.
  std::shared_ptr<const std::vector<ValueId>> guarded = {};

  [[nodiscard]] Retention retention_of(ValueId value) const {
    const bool is_known =
        retentions != nullptr && static_cast<std::size_t>(value) < retentions->size();
    return is_known ? (*retentions)[value] : Retention::drop;
  }
  [[nodiscard]] bool guards(ValueId value) const {
    return guarded == nullptr || std::ranges::binary_search(*guarded, value);
  }
};

}  // namespace gradrecomp::tape
