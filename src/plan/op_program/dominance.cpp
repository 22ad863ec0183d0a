#include "dominance.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "courses.h"

// Note [ Needless partial plans ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// By prices alone, a partial plan may do whatever another one does from here on, and for no more,
// if each of its visits stands for one of the other's that begins no later, and if of each value
// - the visits that find it missing, and those that ask for it, or twice, are among the other's;
// - it is decided about, unless it is not for the other either;
// - what it is to leave behind is asked for by then, as else it comes to nothing.
// All this is one set of needs, and a comparison of sets takes a few instructions. A visit that the
// other has in addition only adds to the other's needs.
//
// Partial plans of many visits are those that come to too little, as some of these are merged and
// what replays in between take is left out. So more is proven if such of fewer visits may make them
// needless. But then what one line finds tells less of what others do, as those that it has dropped
// may be the cheapest under them, and a fit goes astray.

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kMostCompared = 128;  // of the ones that have come to least
constexpr std::size_t kBitsOfAValue = 4 * kMostVisits + 1;
constexpr std::size_t kValuesInAWord = 64 / kBitsOfAValue;
constexpr std::size_t kNumWords = (kMostAtOnce + kValuesInAWord - 1) / kValuesInAWord;

using Needs = std::array<std::uint64_t, kNumWords>;
using Events = decltype(Course::events);

bool are_within(const Needs& needs, const Needs& others) {
  for (std::size_t i = 0; i < kNumWords; ++i) {
    if ((needs[i] & ~others[i]) != 0) return false;
  }
  return true;
}

/// Numbers of visits as they are, but for one that is left out: 0 for none.
int place_of(int visit, int left_out) {
  return left_out > 0 && visit >= left_out ? visit + 1 : visit;
}

std::uint64_t placed(Visits visits, int left_out) {
  std::uint64_t placed = 0;
  for (int visit = 1; visit <= kMostVisits; ++visit) {
    if (has(visits, visit)) placed |= std::uint64_t{1} << (place_of(visit, left_out) - 1);
  }
  return placed;
}

/// The needs of `open` as one of more visits, in which `left_out` is not one of its own.
Needs needs_of(const OpenStep& open, int left_out) {
  constexpr std::uint64_t kMissingForAll = (std::uint64_t{1} << (kMostVisits + 1)) - 1;
  Needs needs{};
  for (std::size_t j = 0; j < open.fates.size(); ++j) {
    const Fate fate = open.fates[j];
    if (fate == kKept) continue;
    std::uint64_t bits = kMissingForAll;
    if (fate != kUndecided) {
      const int visit = place_of(fate, left_out);
      bits = (std::uint64_t{1} << visit) - 1;
      if (!has(open.asking[j], fate)) bits |= std::uint64_t{1} << (3 * kMostVisits + visit);
    }
    bits |= placed(open.asking[j], left_out) << (kMostVisits + 1);
    bits |= placed(open.again[j], left_out) << (2 * kMostVisits + 1);
    needs[j / kValuesInAWord] |= bits << (kBitsOfAValue * (j % kValuesInAWord));
  }
  return needs;
}

/// One partial plan, and where it is.
struct Entry {
  const Course* course;
  std::size_t steps;
  Events events;
};

/// Those that none before them has made needless.
class Needed {
 public:
  Needed(const std::vector<OpenSteps>& all, Rivals rivals)
      : all_(all), most_more_(rivals == Rivals::of_fewer_visits_too ? 1 : 0), needs_(all.size()) {
    for (std::size_t s = 0; s < all.size(); ++s) {
      const OpenStep& open = all[s].step;
      needs_[s].push_back(needs_of(open, 0));
      if (most_more_ == 0 || open.num_visits == kMostVisits) continue;
      for (int i = 1; i <= open.num_visits + 1; ++i) needs_[s].push_back(needs_of(open, i));
    }
  }

  /// False if it is needless.
  bool add(const Entry& entry) {
    const auto makes_needless = [&](const Entry& other) { return is_as_good(other, entry); };
    if (std::ranges::any_of(compared_, makes_needless)) return false;
    if (compared_.size() < kMostCompared) compared_.push_back(entry);
    return true;
  }

 private:
  [[nodiscard]] bool is_as_good(const Entry& entry, const Entry& than) const {
    const int num_visits = all_[entry.steps].step.num_visits;
    const int more = all_[than.steps].step.num_visits - num_visits;
    if (more < 0 || more > most_more_) return false;
    const Needs& needs = needs_[than.steps].front();
    const int first = more == 0 ? 0 : 1;
    const int last = more == 0 ? 0 : num_visits + 1;
    for (int left_out = first; left_out <= last; ++left_out) {
      const bool needs_no_more = are_within(needs_[entry.steps][left_out], needs);
      if (needs_no_more && begins_as_late(entry, than, left_out)) return true;
    }
    return false;
  }

  [[nodiscard]] bool begins_as_late(const Entry& entry, const Entry& than, int left_out) const {
    const int num_visits = all_[entry.steps].step.num_visits;
    for (int visit = 1; visit <= num_visits; ++visit) {
      if (entry.events[visit] < than.events[place_of(visit, left_out)]) return false;
    }
    return true;
  }

  const std::vector<OpenSteps>& all_;
  int most_more_;                          ///< visits
  std::vector<std::vector<Needs>> needs_;  ///< per set, by the visit that is left out
  std::vector<Entry> compared_;
};

}  // namespace

void drop_needless(std::vector<OpenSteps>& all, const Prices& prices, Rivals rivals) {
  if (rivals == Rivals::none) return;
  std::vector<Entry> entries;
  for (std::size_t s = 0; s < all.size(); ++s) {
    for (const Course& course : all[s].courses) {
      entries.push_back({&course, s, begins_of(course, prices)});
    }
  }
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return e.course->lagrangian; });
  Needed needed(all, rivals);
  std::vector<std::vector<Course>> left(all.size());
  for (const Entry& entry : entries) {
    if (needed.add(entry)) left[entry.steps].push_back(*entry.course);
  }
  for (std::size_t s = 0; s < all.size(); ++s) all[s].courses = std::move(left[s]);
  std::erase_if(all, [](const OpenSteps& steps) { return steps.courses.empty(); });
}

}  // namespace gradrecomp::plan
