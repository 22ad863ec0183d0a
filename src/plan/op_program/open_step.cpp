#include "open_step.h"

#include <algorithm>

namespace gradrecomp::plan {
namespace {

/// `visits` without the place of `visit`.
Visits without_place(Visits visits, int visit) {
  const int below = visits & (bit(visit) - 1);
  return static_cast<Visits>(below | visits >> (visit + 1) << visit);
}

/// A number of a visit behind `visit` falls by one.
void close_gap(Fate& fate, int visit, int num_visits) {
  if (fate <= num_visits && fate > visit) --fate;
}

}  // namespace

void Course::join(const Course& other) {
  if (other.lagrangian < lagrangian) held = other.held;
  cost = std::min(cost, other.cost);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i] = std::min(loads[i], other.loads[i]);
    starts[i] = std::min(starts[i], other.starts[i]);
    events[i] = std::max(events[i], other.events[i]);
  }
  lagrangian = std::min(lagrangian, other.lagrangian);
}

void Course::forget_visit(int i) {
  const auto place = static_cast<std::size_t>(i);
  loads[place - 1] = std::max(loads[place - 1], loads[place]);
  for (std::size_t j = place; j + 1 < loads.size(); ++j) {
    loads[j] = loads[j + 1];
    starts[j] = starts[j + 1];
    events[j] = events[j + 1];
  }
  loads.back() = 0;
  starts.back() = 0;
  events.back() = 0;
}

void OpenSteps::note_load(int visit, std::int64_t load) {
  for (Course& course : courses) course.loads[visit] = std::max(course.loads[visit], load);
}

void OpenSteps::forget_visit(int visit) {
  for (std::size_t j = 0; j < step.fates.size(); ++j) {
    close_gap(step.fates[j], visit, step.num_visits);
    step.asking[j] = without_place(step.asking[j], visit);
    step.again[j] = without_place(step.again[j], visit);
  }
  step.merged = without_place(step.merged, visit);
  for (Course& course : courses) course.forget_visit(visit);
  --step.num_visits;
}

void OpenSteps::merge_nearest() {
  const auto& events = courses.front().events;
  const auto distance = [&](int visit) { return events[visit + 1] - events[visit]; };
  int nearest = 1;
  for (int visit = 2; visit < step.num_visits; ++visit) {
    if (distance(visit) <= distance(nearest)) nearest = visit;
  }
  merge_with_next(nearest);
}

void OpenSteps::merge_with_next(int first) {
  for (std::size_t j = 0; j < step.asking.size(); ++j) {
    Visits& asking = step.asking[j];
    Visits& again = step.again[j];
    const bool by_both = has(asking, first) && has(asking, first + 1);
    if (by_both || has(again, first)) again |= bit(first + 1);
    if (has(asking, first)) asking |= bit(first + 1);
  }
  step.merged |= bit(first + 1);
  // What is left behind by the first is by the two from now on.
  for (Fate& fate : step.fates) {
    if (fate == first) ++fate;
  }
  for (Course& course : courses) course.starts[first + 1] = 0;
  forget_visit(first);
}

}  // namespace gradrecomp::plan
