#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "plan/bounds/int128.h"
#include "short_list.h"
#include "trace.h"
#include "tracked_step.h"

namespace gradrecomp::plan {

/// What becomes of a value: kept, left behind by a visit (its number, from 1), or not yet decided.
using Fate = std::uint8_t;
inline constexpr Fate kKept = 255;
inline constexpr Fate kUndecided = 254;

/// Visits of a partial plan that may be told apart, and one more while that is seen to.
inline constexpr int kMostVisits = 4;

/// Bits of visits, from bit 1.
using Visits = std::uint8_t;
constexpr bool has(Visits visits, int visit) { return (visits >> visit & 1) != 0; }
constexpr Visits bit(int visit) { return static_cast<Visits>(1 << visit); }

/// What the ops in front must know of a partial plan. A visit is a demand whose replays have yet to
/// reach them.
struct OpenStep {
  Fate num_visits = 0;
  Visits merged = 0;  ///< which stand for several
  /// Per value between the ops in front and those behind.
  ShortList<Fate, kMostAtOnce> fates = {};
  ShortList<Visits, kMostAtOnce> asking = {};  ///< the visits that find it missing
  ShortList<Visits, kMostAtOnce> again = {};   ///< those of them in which it is made twice
  auto operator<=>(const OpenStep&) const = default;
};

/// What a partial plan has come to. Loads leave out what the ops in front are yet to add.
struct Course {
  static constexpr int kMost = kMostVisits + 2;
  std::int64_t cost = 0;                     ///< units
  std::array<std::int64_t, kMost> loads{};   ///< highest, before all visits and from each on
  std::array<std::int64_t, kMost> starts{};  ///< as each visit begins
  std::array<Index, kMost> events{};         ///< of the visits
  Int128 lagrangian = 0;                     ///< what it adds to the least that Prices tells
  std::int64_t kept_bytes = 0;               ///< by plans, and not left behind by visits
  Trace::List held = Trace::kEmpty;          ///< what it holds, where that is noted
  std::int32_t origin = 0;                   ///< the place that it has come from; see Outlook

  /// Makes this as good as both.
  void join(const Course& other);
  /// Forgets visit `i`, from which on all is as it was from the one before it.
  void forget_visit(int i);
};

/// Partial plans of which the ops in front must know the same.
struct OpenSteps {
  OpenStep step;
  std::vector<Course> courses;

  void note_load(int visit, std::int64_t load);
  /// Forgets a visit that asks for nothing any more.
  void forget_visit(int visit);
  /// Makes visits `first` and the next one, at the time of the later: what they leave behind is
  /// there for a shorter time that way. What both ask for is still made twice.
  void merge_with_next(int first);
  /// Merges the two visits that are nearest to each other.
  void merge_nearest();
};

}  // namespace gradrecomp::plan
