#include "courses.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <tuple>
#include <utility>

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kMost = 300;         // of partial plans that ask for the same
constexpr std::size_t kMostByPrice = 100;  // the same where loads do not matter

bool is_no_worse(const Course& course, const Course& other) {
  for (std::size_t i = 0; i < course.loads.size(); ++i) {
    if (course.loads[i] > other.loads[i] || course.starts[i] > other.starts[i]) return false;
  }
  return course.cost <= other.cost;
}

/// Courses that are to become one: those from `begin` to `end`.
struct Group {
  std::size_t begin = 0;
  std::size_t end = 0;
  double spread = 0;  ///< how far they differ
  int figure = 0;     ///< in what they do
  double middle = 0;  ///< of that
  bool operator<(const Group& other) const { return spread < other.spread; }
};

/// Splits courses into groups, the widest first.
class Groups {
 public:
  Groups(std::vector<Course>& courses, const PlanLimits& limits)
      : courses_(courses), limits_(limits) {
    groups_.push(group(0, courses.size()));
  }

  void split(std::size_t num_groups) {
    while (groups_.size() < num_groups && groups_.top().spread > 0) {
      const Group widest = groups_.top();
      groups_.pop();
      const auto begin = courses_.begin() + static_cast<std::ptrdiff_t>(widest.begin);
      const auto end = courses_.begin() + static_cast<std::ptrdiff_t>(widest.end);
      const auto middle = std::partition(begin, end, [&](const Course& course) {
        return figure(course, widest.figure) <= widest.middle;
      });
      const auto place = static_cast<std::size_t>(middle - courses_.begin());
      groups_.push(group(widest.begin, place));
      groups_.push(group(place, widest.end));
    }
  }

  /// One course as good as all of a group, for each.
  [[nodiscard]] std::vector<Course> joined() && {
    std::vector<Course> all;
    for (; !groups_.empty(); groups_.pop()) {
      all.push_back(courses_[groups_.top().begin]);
      for (std::size_t i = groups_.top().begin + 1; i < groups_.top().end; ++i) {
        all.back().join(courses_[i]);
      }
    }
    return all;
  }

 private:
  static constexpr int kNumFigures = 1 + 2 * Course::kMost;

  /// Its cost, its loads or its visits' starts, as a part of the limit.
  [[nodiscard]] double figure(const Course& course, int number) const {
    const auto part = [](std::int64_t x, std::int64_t limit) {
      return static_cast<double>(x) / static_cast<double>(limit + 1);
    };
    if (number == 0) return part(course.cost, limits_.units);
    const auto i = static_cast<std::size_t>(number - 1);
    return part(i < course.loads.size() ? course.loads[i] : course.starts[i - course.loads.size()],
                limits_.peak_bytes);
  }

  [[nodiscard]] Group group(std::size_t begin, std::size_t end) const {
    Group group{begin, end};
    for (int number = 0; number < kNumFigures; ++number) {
      double low = figure(courses_[begin], number);
      double high = low;
      for (std::size_t i = begin + 1; i < end; ++i) {
        const double x = figure(courses_[i], number);
        low = std::min(low, x);
        high = std::max(high, x);
      }
      if (high - low <= group.spread) continue;
      group.spread = high - low;
      group.figure = number;
      const double middle = (low + high) / 2;
      group.middle = middle < high ? middle : low;
    }
    return group;
  }

  std::vector<Course>& courses_;
  const PlanLimits& limits_;
  std::priority_queue<Group> groups_;
};

}  // namespace

decltype(Course::events) begins_of(const Course& course, const Prices& prices) {
  auto events = course.events;
  for (Index& event : events) event = prices.last_alike(event);
  return events;
}

std::vector<Course> best_of(std::vector<Course> courses) {
  std::ranges::sort(courses, {}, [](const Course& course) {
    return std::tie(course.cost, course.loads, course.starts);
  });
  std::vector<Course> best;
  for (const Course& course : courses) {
    const auto known =
        std::ranges::find_if(best, [&](const Course& other) { return is_no_worse(other, course); });
    if (known == best.end()) {
      best.push_back(course);
    } else {
      known->lagrangian = std::min(known->lagrangian, course.lagrangian);
    }
  }
  return best;
}

std::vector<Course> cheapest_of(std::vector<Course> courses, const Prices& prices) {
  using Events = decltype(Course::events);
  const auto is_as_late = [](const Events& events, const Events& others) {
    return std::ranges::equal(events, others, std::ranges::greater_equal());
  };
  std::ranges::sort(courses, {}, &Course::lagrangian);
  std::vector<Course> cheapest;
  std::vector<Events> begins;
  for (const Course& course : courses) {
    const Events begin = begins_of(course, prices);
    const bool is_needless = std::ranges::any_of(
        begins, [&](const Events& others) { return is_as_late(others, begin); });
    if (is_needless) continue;
    if (cheapest.size() < kMostByPrice) {
      cheapest.push_back(course);
      begins.push_back(begin);
    } else {
      cheapest.back().join(course);
      begins.back() = begins_of(cheapest.back(), prices);
    }
  }
  return cheapest;
}

void thin_out(std::vector<Course>& courses, const PlanLimits& limits) {
  if (courses.size() <= kMost) return;
  Groups groups(courses, limits);
  groups.split(kMost);
  courses = std::move(groups).joined();
}

}  // namespace gradrecomp::plan
