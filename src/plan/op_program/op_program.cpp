#include "op_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "courses.h"
#include "plan/bounds/cost_units.h"

// Note [ Programs over ops ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Weighted lines (Note [ Lower bounds ] in relaxation.cpp) leave out what replays make early, and
// mix plans: half of one and half of another may lie on a line that no plan reaches. Here a limit
// of bytes is given, and a program over the ops, from the last to the first, finds the least that
// any plan within it costs. Between two ops it knows partial plans: what is decided about the
// values that the ops behind make or read, what that costs, and the loads so far.
//
// A *visit* is a demand whose value is gone, so that replays run. It begins at an event, in some
// op's backward, and asks for values further and further in front: an op runs in it if what it
// makes is asked for and missing, and then asks for what it reads. Each value is kept, or is left
// behind by one of the visits that make it, at the latest by its own demand; visits before that
// make it again. So an op's replays follow from who asks, and with them costs, and bytes to the
// byte:
//   kept         from the program's letting go of it to its last release
//   left behind  from that visit to its last release
//   asked for    while the ops between its maker and its last reader run in a visit
// A visit is forgotten when nothing in front is asked for, as where boundaries are kept.
//
// Partial plans that ask for the same are compared by cost and loads: the highest before all visits
// (what is kept adds to it), from each visit on (what is left behind adds, too), and as each visit
// begins (for the replays in it). One that is worse in nothing makes another needless.
//
// What keeps this small, and proves a little less, never too much:
// - Prices rule out partial plans from which no plan within the limits follows: first by what a
//   program without visits adds in front (Note [ Foresight ]), then by what this one does (Note
//   [ Outlooks ]).
// - Some values are never worth holding (tracked_step.cpp).
// - Loads that cannot rise above the limit any more are all the same.
// - Only so many visits are told apart at once; where there are more, the two nearest to each other
//   become one, at the time of the later. What both ask for is made twice in it, and nothing more
//   often; what it leaves behind is there later than it would be, and what it takes in passing does
//   not count.
// - Where many partial plans differ by costs and loads, two of them become one as good as both.
// - Values that are not tracked take nothing and are always there (tracked_step.h); an op that
//   joins the one before it takes its fewest seconds and no bytes; nor do clones for replays in
//   place take any.
//
// Prices alone prove something, too: if no partial plan comes to so little as all within the
// limits do. Then loads are not compared, and of partial plans that ask for the same one is as good
// as another that costs no less and whose visits begin no later, as what they leave behind costs
// less the later that is; nor is one needed that asks for more than another (dominance.cpp). Few
// are left, and lines can be fitted to what they hold (line_fit.cpp).
//
// With nothing of that kind in the way, the program's answer is the best plan's cost: so it is for
// 99% of the limits of small random chains, whose schedules can all be tried.

namespace gradrecomp::plan {
namespace {

std::vector<std::int64_t> costs_of(const Graph& graph, const ReplayCost& replay_cost) {
  std::vector<std::int64_t> costs;
  for (const Op& op : graph.ops) costs.push_back(units_within(replay_cost.overhead(op)));
  return costs;
}

std::int64_t bytes_at(const TrackedValue& x, Fate fate, const Moment& moment) {
  const Index t = moment.event;
  if (fate == kKept) return x.life.death < t && t <= x.life.release ? x.bytes : 0;
  const bool is_made = fate != kUndecided && moment.in_backward;
  return is_made && t <= x.end_if_made() ? x.bytes : 0;
}

/// Those of which the ops in front must know the same become one.
void merge_equal(std::vector<OpenSteps>& all) {
  std::ranges::stable_sort(all, {}, &OpenSteps::step);
  std::size_t last = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].step == all[last].step) {
      auto& courses = all[last].courses;
      courses.insert(courses.end(), all[i].courses.begin(), all[i].courses.end());
    } else if (++last != i) {
      all[last] = std::move(all[i]);
    }
  }
  all.resize(std::min(all.size(), last + 1));
}

}  // namespace

OpProgram::OpProgram(const Graph& graph, const ReplayCost& replay_cost, const Proof& line)
    : graph_(graph),
      step_(graph),
      costs_(costs_of(graph, replay_cost)),
      prices_(step_, costs_, line),
      foresight_(step_, prices_),
      place_(step_.values().size(), -1) {}

void OpProgram::follow(const Proof& line) {
  prices_ = Prices(step_, costs_, line);
  foresight_ = Foresight(step_, prices_);
}

OpProgram::Answer OpProgram::find(const PlanLimits& limits, const Effort& effort) {
  if (!step_.is_simple()) return {.gave_up = true};
  begin(limits, effort);
  outlook_.begin(step_.num_ops(), prices_, limits);
  Answer answer = answer_of(pass_ops(Aim::outlook));
  if (answer.exists && !answer.gave_up) {
    if (!outlook_.is_crowded()) outlook_.finish();
    answer = answer_of(pass_ops(Aim::loads));
  }
  answer.work = effort.most_work - work_left_;
  return answer;
}

OpProgram::Priced OpProgram::find_priced(const PlanLimits& limits, const Effort& effort) {
  if (!step_.is_simple()) return {.gave_up = true};
  begin(limits, effort);
  const Steps all = pass_ops(Aim::prices);
  Priced priced{.gave_up = has_given_up(), .work = effort.most_work - work_left_};
  const Course* least = nullptr;
  for (const OpenSteps& steps : all) {
    for (const Course& course : steps.courses) {
      if (least == nullptr || course.lagrangian < least->lagrangian) least = &course;
    }
  }
  priced.exists = priced.gave_up || least != nullptr;
  if (priced.gave_up || least == nullptr) return priced;
  priced.least_peak_bytes = prices_.peak_bytes(least->lagrangian, limits.units);
  priced.units = least->cost;
  priced.loads = step_.base_bytes();
  trace_.add_to(priced.loads, least->held);
  return priced;
}

void OpProgram::begin(const PlanLimits& limits, const Effort& effort) {
  limits_ = limits;
  most_of_all_ = prices_.most(limits.peak_bytes, limits.units);
  work_left_ = effort.most_work;
  num_visits_ = effort.num_visits;
  rivals_ = effort.rivals;
}

/// The partial plans that are left when all is decided, or where it gives up.
OpProgram::Steps OpProgram::pass_ops(Aim aim) {
  aim_ = aim;
  trace_.clear();
  open_values_.clear();
  std::ranges::fill(place_, -1);
  most_ = most_before(step_.num_ops());
  Steps all(1);
  all.front().courses.emplace_back();
  pass_moments(step_.num_ops(), all);
  for (Index op = step_.num_ops(); op-- > 0 && !is_over();) {
    most_ = most_before(op);
    enter(op, all);
    pass_moments(op, all);
    std::erase_if(all, [&](OpenSteps& steps) { return !run(op, steps); });
    leave(op, all);
  }
  return all;
}

/// What a partial plan may have come to before anything is known of the ops before `op`.
Int128 OpProgram::most_before(Index op) const {
  const Int128 least = foresight_.least_before(op);
  return most_of_all_ - (compares_loads() ? std::max(least, outlook_.least_before(op)) : least);
}

OpProgram::Answer OpProgram::answer_of(const Steps& all) const {
  if (has_given_up()) return {.gave_up = true};
  Answer answer{.exists = !all.empty(), .units = limits_.units};
  for (const OpenSteps& steps : all) {
    for (const Course& course : steps.courses) answer.units = std::min(answer.units, course.cost);
  }
  return answer;
}

bool OpProgram::is_within(const Course& course) const {
  if (course.lagrangian > most_) return false;
  return !compares_loads() ||
         (course.cost <= limits_.units && std::ranges::max(course.loads) <= limits_.peak_bytes);
}

/// Each set of partial plans takes as long as a few more of them.
void OpProgram::note_work(const OpenSteps& steps) {
  constexpr std::int64_t kForASet = 3;
  work_left_ -= kForASet + static_cast<std::int64_t>(steps.courses.size());
}

/// As does each that is compared with many.
void OpProgram::drop_needless_of(Steps& all) {
  constexpr std::int64_t kForEach = 10;
  for (const OpenSteps& steps : all) {
    work_left_ -= kForEach * static_cast<std::int64_t>(steps.courses.size());
  }
  drop_needless(all, prices_, rivals_);
}

/// False if none of them does.
bool OpProgram::keep_within(OpenSteps& steps) {
  note_work(steps);
  std::erase_if(steps.courses, [&](const Course& course) { return !is_within(course); });
  return !steps.courses.empty();
}

/// Those of `steps` that keep within the limits once they have come to `adds(course)` more and
/// `change(course)`: most do not, and need no copy.
template <typename Adds, typename Change>
OpenSteps OpProgram::changed(const OpenSteps& steps, const Adds& adds, const Change& change) {
  note_work(steps);
  OpenSteps next{.step = steps.step, .courses = {}};
  for (const Course& course : steps.courses) {
    const Int128 lagrangian = course.lagrangian + adds(course);
    if (lagrangian > most_) continue;
    Course& copy = next.courses.emplace_back(course);
    copy.lagrangian = lagrangian;
    change(copy);
    if (!is_within(copy)) next.courses.pop_back();
  }
  return next;
}

/// False where something else is held instead.
bool OpProgram::may_be_kept(const TrackedValue& x) const {
  if (!x.choosable || aim_ != Aim::prices || !x.pays_by_loads) return x.choosable;
  return prices_.weigh_between(x.made_of_it_dies, x.life.death);
}

bool OpProgram::may_be_left(const TrackedValue& x) const {
  return x.choosable && (aim_ != Aim::prices || !x.pays_by_loads);
}

/// By a visit that does not ask for it, too.
bool OpProgram::is_made_if_left(const TrackedValue& x) const {
  return aim_ == Aim::prices && x.made_if_left;
}

void OpProgram::enter(Index op, Steps& all) {
  for (const Index tracked : step_.entering(op)) {
    enter_value(tracked, all);
    const Foresight::View ahead = foresight_.at(op, open_values_);
    std::erase_if(all, [&](OpenSteps& steps) { return !keep_hopeful(steps, ahead); });
  }
}

/// False if none of them comes to so little as plans within the limits, with what is yet to add.
bool OpProgram::keep_hopeful(OpenSteps& steps, const Foresight::View& ahead) const {
  const Int128 most = most_of_all_ - ahead.least(steps.step);
  std::erase_if(steps.courses, [&](const Course& course) { return course.lagrangian > most; });
  return !steps.courses.empty();
}

/// Decides about a value as far as it matters to the moments behind.
void OpProgram::enter_value(Index tracked, Steps& all) {
  const TrackedValue& x = step_.value(tracked);
  place_[tracked] = static_cast<Index>(open_values_.size());
  open_values_.push_back(tracked);
  Steps found;
  const bool asks_too = is_made_if_left(x);
  const auto add = [&](const OpenSteps& steps, Fate fate, const auto& adds, const auto& change) {
    OpenSteps next = changed(steps, adds, change);
    if (next.courses.empty()) return;
    next.step.fates.push_back(fate);
    const bool is_left = fate != kKept && fate != kUndecided;
    next.step.asking.push_back(is_left && asks_too ? bit(fate) : 0);
    next.step.again.push_back(0);
    found.push_back(std::move(next));
  };
  // From visit `first` on it takes `bytes`.
  const auto take = [](Course& course, int first, int num_visits, std::int64_t bytes) {
    for (int i = first; i <= num_visits; ++i) {
      course.loads[i] += bytes;
      if (i > first) course.starts[i] += bytes;
    }
  };
  for (const OpenSteps& steps : all) {
    if (has_given_up()) break;
    const Fate num_visits = steps.step.num_visits;
    if (may_be_kept(x)) {
      const auto adds = [&](const Course& /*course*/) { return prices_.of_kept(x); };
      add(steps, kKept, adds, [&](Course& course) {
        take(course, 0, num_visits, x.kept_bytes);
        course.kept_bytes += x.kept_bytes;
        hold(course, x, x.life.death, x.life.release);
      });
    }
    for (Fate visit = 1; may_be_left(x) && visit <= num_visits; ++visit) {
      const auto adds = [&](const Course& course) {
        return prices_.of_left(x, course.events[visit], x.end_if_made());
      };
      add(steps, visit, adds, [&](Course& course) {
        take(course, visit, num_visits, x.bytes);
        hold(course, x, course.events[visit], x.end_if_made());
      });
    }
    const auto adds = [&](const Course& /*course*/) { return prices_.of_made(x); };
    add(steps, kUndecided, adds, [&](Course& course) {
      if (x.demanded) hold(course, x, x.life.demand, x.end_if_made());
    });
  }
  all = std::move(found);
}

void OpProgram::pass_moments(Index op, Steps& all) {
  for (const Moment& moment : step_.moments(op)) {
    Steps found;
    for (OpenSteps& steps : all) {
      if (has_given_up()) return all.clear();
      const bool replays =
          moment.demanded >= 0 && steps.step.fates[place_[moment.demanded]] == kUndecided;
      if (replays) {
        visit(moment, op, std::move(steps), found);
        continue;
      }
      if (compares_loads()) {
        steps.note_load(moment.in_backward ? steps.step.num_visits : 0, load(moment, steps.step));
      }
      if (keep_within(steps)) found.push_back(std::move(steps));
    }
    all = std::move(found);
  }
}

std::int64_t OpProgram::load(const Moment& moment, const OpenStep& open) const {
  std::int64_t bytes = moment.base_bytes;
  for (std::size_t j = 0; j < open_values_.size(); ++j) {
    bytes += bytes_at(step_.value(open_values_[j]), open.fates[j], moment);
  }
  return bytes;
}

/// The demanded value is gone, so replays make it and leave it behind, and others as they like.
void OpProgram::visit(const Moment& moment, Index op, OpenSteps steps, Steps& found) {
  const std::int64_t start = compares_loads() ? load(moment, steps.step) : 0;
  const Fate visit = ++steps.step.num_visits;
  const Index place = place_[moment.demanded];
  steps.step.fates[place] = visit;
  steps.step.asking[place] |= bit(visit);
  for (Course& course : steps.courses) {
    course.starts[visit] = start;
    course.events[visit] = moment.event;
  }
  Steps branches;
  branches.push_back(std::move(steps));
  choose_left_behind(moment, op, branches);
  const Foresight::View ahead = foresight_.at(op, open_values_);
  for (OpenSteps& branch : branches) {
    if (compares_loads()) branch.note_load(visit, load(moment, branch.step));
    if (!keep_within(branch) || !keep_hopeful(branch, ahead)) continue;
    if (visit > num_visits_) branch.merge_nearest();
    found.push_back(std::move(branch));
  }
}

/// By the newest visit, of what is still undecided and may yet be asked for.
void OpProgram::choose_left_behind(const Moment& moment, Index op, Steps& branches) {
  for (std::size_t j = 0; j < open_values_.size(); ++j) {
    const TrackedValue& x = step_.value(open_values_[j]);
    const bool is_read_in_front = x.first_reader >= 0 && x.first_reader <= op;
    const bool asks_too = is_made_if_left(x);
    const bool may_be_made = is_read_in_front || x.has_sibling || asks_too;
    if (!may_be_left(x) || !may_be_made) continue;
    const Index end = x.demanded ? x.life.demand : x.end_if_made();
    const auto adds = [&](const Course& /*course*/) {
      return prices_.of_left(x, moment.event, end);
    };
    const std::size_t num_branches = branches.size();
    for (std::size_t b = 0; b < num_branches && !has_given_up(); ++b) {
      if (branches[b].step.fates[j] != kUndecided) continue;
      OpenSteps left = changed(branches[b], adds, [&](Course& course) {
        hold(course, x, moment.event, std::min(end, x.end_if_made()));
      });
      if (left.courses.empty()) continue;
      left.step.fates[j] = left.step.num_visits;
      if (asks_too) left.step.asking[j] |= bit(left.step.num_visits);
      branches.push_back(std::move(left));
    }
  }
}

/// Replays `op` in all visits that ask for what it makes. False if that ends these partial plans.
bool OpProgram::run(Index op, OpenSteps& steps) {
  const OpenStep& open = steps.step;
  Runs runs;
  for (const Index w : step_.outputs(op)) {
    if (place_[w] < 0) continue;
    runs.once |= open.asking[place_[w]];
    runs.again |= open.again[place_[w]];
  }
  for (const Index w : step_.outputs(op)) {
    if (place_[w] < 0) continue;
    const Fate fate = open.fates[place_[w]];
    const bool is_left_unmade = fate <= open.num_visits && !has(runs.once, fate);
    if (is_left_unmade) return false;
  }
  if (runs.once == 0) return true;
  ask_inputs(op, runs, steps.step);
  note_replays(op, runs, steps);
  return keep_within(steps);
}

void OpProgram::ask_inputs(Index op, const Runs& runs, OpenStep& open) const {
  for (const Index u : step_.inputs(op)) {
    const Index place = place_[u];
    const Fate fate = open.fates[place];
    for (int visit = 1; visit <= open.num_visits; ++visit) {
      const bool is_there = fate == kKept || (fate <= open.num_visits && fate < visit);
      if (!has(runs.once, visit) || is_there) continue;
      open.asking[place] |= bit(visit);
      // What the first of several visits leaves behind is there for the others.
      if (has(runs.again, visit) && fate != visit) open.again[place] |= bit(visit);
    }
  }
}

void OpProgram::note_replays(Index op, const Runs& runs, OpenSteps& steps) const {
  const OpFacts& facts = graph_.ops[op];
  const OpenStep& open = steps.step;
  std::int64_t units = 0;
  for (int visit = 1; visit <= open.num_visits; ++visit) {
    if (!has(runs.once, visit)) continue;
    units += prices_.cost(op) * (has(runs.again, visit) ? 2 : 1);
    if (!compares_loads() || facts.joins || has(open.merged, visit)) continue;
    std::int64_t bytes = std::max(facts.fresh_bytes, facts.replay_transient_bytes);
    for (std::size_t j = 0; j < open_values_.size(); ++j) {
      const TrackedValue& x = step_.value(open_values_[j]);
      const bool is_there = x.producer < op && has(open.asking[j], visit);
      bytes += is_there ? x.passing_bytes : 0;
    }
    for (Course& course : steps.courses) {
      course.loads[visit] = std::max(course.loads[visit], course.starts[visit] + bytes);
    }
  }
  for (Course& course : steps.courses) {
    course.cost += units;
    course.lagrangian += prices_.of_replays(units);
  }
}

/// What `op` makes is decided: the ops in front need not know.
void OpProgram::leave(Index op, Steps& all) {
  std::vector<std::size_t> stays;
  for (std::size_t j = 0; j < open_values_.size(); ++j) {
    if (step_.value(open_values_[j]).producer < op) stays.push_back(j);
  }
  std::erase_if(all, [&](OpenSteps& steps) {
    OpenStep rest{.num_visits = steps.step.num_visits};
    if (compares_loads()) rest.merged = steps.step.merged;  // which changes nothing else
    for (const std::size_t j : stays) {
      rest.fates.push_back(steps.step.fates[j]);
      rest.asking.push_back(steps.step.asking[j]);
      rest.again.push_back(steps.step.again[j]);
    }
    steps.step = rest;
    return !close_visits(steps);
  });
  std::vector<Index> values;
  for (const std::size_t j : stays) values.push_back(open_values_[j]);
  open_values_ = std::move(values);
  std::ranges::fill(place_, -1);
  for (std::size_t j = 0; j < open_values_.size(); ++j) {
    place_[open_values_[j]] = static_cast<Index>(j);
  }
  merge_equal(all);
  const Foresight::View ahead = foresight_.at(op, open_values_);
  std::erase_if(all, [&](OpenSteps& steps) {
    prune(op, steps, ahead);
    return steps.courses.empty();
  });
  if (aim_ == Aim::prices) drop_needless_of(all);
  if (trace_.is_crowded()) forget_unheld(all);
}

/// Forgets visits that ask for nothing in front. False if one was to leave something behind there.
bool OpProgram::close_visits(OpenSteps& steps) const {
  for (int visit = steps.step.num_visits; visit >= 1; --visit) {
    const bool asks =
        std::ranges::any_of(steps.step.asking, [&](Visits asking) { return has(asking, visit); });
    if (asks) continue;
    if (std::ranges::count(steps.step.fates, static_cast<Fate>(visit)) > 0) return false;
    steps.forget_visit(visit);
  }
  return true;
}

void OpProgram::prune(Index op, OpenSteps& steps, const Foresight::View& ahead) {
  if (!keep_hopeful(steps, ahead)) return;
  if (!compares_loads()) {
    std::vector<Course> cheapest = cheapest_of(steps.courses, prices_);
    if (aim_ == Aim::outlook) outlook_.add(op, steps.step, steps.courses, cheapest);
    steps.courses = std::move(cheapest);
    return;
  }
  if (outlook_.is_known()) {
    std::erase_if(steps.courses, [&](const Course& course) {
      return outlook_.is_hopeless(op, steps.step, course);
    });
  }
  for (Course& course : steps.courses) {
    for (std::int64_t& load : course.loads) {
      if (load + step_.bytes_before(op) <= limits_.peak_bytes) load = 0;
    }
  }
  steps.courses = best_of(std::move(steps.courses));
  thin_out(steps.courses, limits_);
}

void OpProgram::hold(Course& course, const TrackedValue& x, Index from, Index to) {
  if (aim_ == Aim::prices) course.held = trace_.add(course.held, x.bytes, from, to);
}

void OpProgram::forget_unheld(Steps& all) {
  std::vector<Trace::List*> lists;
  for (OpenSteps& steps : all) {
    for (Course& course : steps.courses) lists.push_back(&course.held);
  }
  trace_.keep_only(lists);
}

}  // namespace gradrecomp::plan
