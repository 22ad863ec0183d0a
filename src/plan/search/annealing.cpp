#include "annealing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "plan/graph/choosable_values.h"
#include "plan/graph/demands.h"

// Note [ Annealing ]
// ~~~~~~~~~~~~~~~~~~
// A good plan touches its peak at many events, so that no change of one value lowers the peak
// itself. What is lowered instead is the *excess*, the sum over events of the bytes above a target
// between the least peak that is not ruled out and the lowest one found; plus a penalty for what
// overhead is above the budget, as ways from one good plan to another lead through dearer ones.
// A move that raises this energy by d is accepted with probability exp(-d / temperature). The
// temperature falls from cycle begin to cycle end, and each cycle begins from the best plan so far.
//
// A move keeps or drops a value, and in most cases does the reverse to another one: one made near
// it, one that an op has in common with it, or any. Or it says from when on replays leave a dropped
// value behind, alone or with one near it: at once, when backward demands it or another value, or,
// saved or not, for all that still want it.
//
// Or a move copies what becomes of a run of values to another run that is alike. Where layers come
// again and again, what pays in one of them pays in others, and value by value each of them would
// have to find that anew. Where moves are few, all are such copies unless there is nothing to copy;
// where they are many, one search makes none and others some, as copies take longer and serve badly
// where no layer is like another.
//
// The moves come from a generator with a fixed seed and their number is bounded, not their time:
// the same request gives the same plan everywhere.
// Source: Kirkpatrick et al., Optimization by Simulated Annealing, 1983.

namespace gradrecomp::plan {
namespace {

constexpr int kAimEvery = 2000;  // moves
constexpr int kFewestMoves = 50;
constexpr std::size_t kReach = 24;
constexpr std::size_t kNearLayers = 3;
constexpr std::size_t kNumLengths = 7;  // of runs that are copied: up to 2, 4, ... 128 values
constexpr double kAsGoal = -1;          // of targets: as the goal says

}  // namespace

/// One cycle of moves.
struct Annealing::Schedule {
  double worth_from;  ///< the fewest moves for each value that make the cycle pay; heat takes time
  double share;       ///< of the moves, relative to that of others
  double target;      ///< where targets begin, from the bound (0) to the best peak (1), or kAsGoal
  double penalty;     ///< for an overhead of 1 too much, in excesses that the cycle begins with
  double hot, cold;   ///< temperatures, in such excesses
  int num_moves = 0;
  double scale = 1;  ///< the excess that the cycle begins with
  static const std::array<Schedule, 4> kAll;
};

const std::array<Annealing::Schedule, 4> Annealing::Schedule::kAll{{
    {.worth_from = 0, .share = 1, .target = kAsGoal, .penalty = 100, .hot = 0.003, .cold = 0.0003},
    {.worth_from = 30, .share = 1, .target = 0.3, .penalty = 60, .hot = 0.003, .cold = 0.0003},
    {.worth_from = 100, .share = 2, .target = 0.5, .penalty = 20, .hot = 0.03, .cold = 0.0003},
    {.worth_from = 100, .share = 2, .target = 0.5, .penalty = 5, .hot = 0.03, .cold = 0.0003},
}};

/// Compared by the sum, then by cost.
struct Annealing::Energy {
  double sum;
  double total;
};

Annealing::Annealing(const Graph& graph, const ReplayCost& replay_cost,
                     const std::vector<Constraint>& constraints)
    : replay_cost_(replay_cost),
      simulator_(graph),
      open_(open_values(graph, constraints)),
      alike_(graph, open_),
      first_demand_(first_demands(graph, 0)) {
  position_.assign(graph.values.size(), 0);
  demanded_at_.assign(graph.events.size(), 0);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    position_[open_[i]] = i + 1;
    const Index demand = first_demand_[open_[i]];
    if (demand != 0) demanded_at_[demand] = i + 1;
  }
  for (const Value& v : graph.values) saved_.push_back(v.saved ? 1 : 0);
  const auto seal = std::ranges::find(graph.events, EventKind::seal, &Event::kind);
  backward_begin_ = static_cast<Index>(seal - graph.events.begin()) + 1;
  find_neighbours(graph);
  // As measured on a few graphs of 70 to 2400 ops: an order of magnitude is enough.
  moves_per_second_ = 1e6 / (2.0 + static_cast<double>(graph.events.size()) / 600.0);
}

void Annealing::find_neighbours(const Graph& graph) {
  neighbours_.resize(open_.size());
  constexpr std::size_t kMost = 16;
  const auto add = [&](Index u, Index w) {
    if (u == w || position_[u] == 0 || position_[w] == 0) return;
    std::vector<Index>& known = neighbours_[position_[u] - 1];
    if (known.size() < kMost) known.push_back(w);
  };
  for (const Op& op : graph.ops) {
    for (const Index u : op.inputs) {
      for (const Index w : op.outputs) {
        add(u, w);
        add(w, u);
      }
      for (const Index w : op.inputs) add(u, w);
    }
  }
}

/// Per value, when replays leave it behind under `candidate`, as far as a single time can express
/// that.
std::vector<Index> Annealing::timing_of(const Candidate& candidate) const {
  std::vector<Index> from = candidate.cached_from;
  if (!from.empty() || candidate.sweeps.empty()) return from;
  from = first_demand_;
  for (const Sweep& sweep : candidate.sweeps) {
    const Index begin = first_demand_[sweep.target];
    for (const Index v : sweep.cached) {
      if (from[v] >= 0 || begin < ~from[v]) from[v] = ~begin;
    }
  }
  return from;
}

void Annealing::run(const Candidate& start, const AnnealingGoal& goal, const Report& report) {
  if (open_.size() < 2 || goal.num_moves < kFewestMoves) return;
  random_.seed(goal.seed);
  goal_ = goal;
  best_keep_ = start.keep;
  best_from_ = timing_of(start);
  best_bytes_ = start.result.peak_bytes;
  const double moves_per_value = goal.num_moves / static_cast<double>(open_.size());
  const auto is_worth = [&](const Schedule& cycle) { return cycle.worth_from <= moves_per_value; };
  double shares = 0;
  for (const Schedule& cycle : Schedule::kAll) shares += is_worth(cycle) ? cycle.share : 0;
  for (Schedule cycle : Schedule::kAll) {
    if (!is_worth(cycle)) continue;
    if (cycle.target < 0) cycle.target = goal.first_target;
    cycle.num_moves = static_cast<int>(goal.num_moves * cycle.share / shares);
    run_cycle(cycle, report);
  }
}

/// Sets the target, ever nearer to the best peak.
void Annealing::aim(const Schedule& schedule, double progress) {
  const double part = schedule.target + (1 - schedule.target) * progress;
  const auto above = static_cast<double>(best_bytes_ - goal_.bound_bytes);
  const std::int64_t step = std::max<std::int64_t>(1, best_bytes_ / 256);
  const std::int64_t target = goal_.bound_bytes + static_cast<std::int64_t>(part * above);
  simulator_.aim_at(std::min(best_bytes_ - step, target));
}

Annealing::Energy Annealing::energy(const Outcome& outcome, const Schedule& schedule) const {
  const double above = std::max(0.0, replay_cost_.overhead(outcome.cost) - goal_.max_overhead);
  return {static_cast<double>(outcome.excess_bytes) / schedule.scale + schedule.penalty * above,
          replay_cost_.total(outcome.cost)};
}

void Annealing::run_cycle(const Schedule& wanted, const Report& report) {
  Schedule schedule = wanted;
  simulator_.start(best_keep_, best_from_);
  aim(schedule, 0);
  schedule.scale = std::max(1.0, static_cast<double>(simulator_.now().excess_bytes));
  int last_aim = 0;
  for (int i = 0; i < schedule.num_moves; ++i) {
    const double progress = i / static_cast<double>(schedule.num_moves);
    if (i - last_aim >= kAimEvery || simulator_.now().excess_bytes <= 0) {
      aim(schedule, progress);
      last_aim = i;
    }
    draw_moves();
    const Outcome& outcome = simulator_.attempt(moves_);
    const Energy now = energy(simulator_.now(), schedule);
    const Energy next = energy(outcome, schedule);
    const double rise = next.sum - now.sum;
    const bool better = rise < 0 || (rise == 0 && next.total <= now.total);
    const double temperature = schedule.hot * std::pow(schedule.cold / schedule.hot, progress);
    if (!better && rise > -std::log(chance() + 1e-12) * temperature) continue;
    simulator_.accept();
    if (replay_cost_.overhead(outcome.cost) > goal_.max_overhead) continue;
    report(simulator_, outcome);
    if (outcome.peak_bytes >= best_bytes_) continue;
    best_bytes_ = outcome.peak_bytes;
    best_keep_ = simulator_.kept();
    best_from_ = simulator_.cached_from();
  }
}

void Annealing::draw_moves() {
  moves_.clear();
  const std::size_t first = below(open_.size());
  const bool copies = goal_.copies_every > 0 && below(goal_.copies_every) == 0;
  if (copies && copy_layers(first)) return;
  const Index v = open_[first];
  const bool kept = simulator_.keeps(v);
  const std::size_t kind = below(8);
  if (kind == 7 && !kept) return draw_timing(v);
  add_flip(v, !kept);
  if (kind < 3) add_flip(near(first), kept);
  if (kind == 3 || kind == 4) add_flip(neighbour(v), kept);
  if (kind == 5) add_flip(open_[below(open_.size())], kept);
  const bool one_more = moves_.size() == 2 && below(4) == 0;
  if (one_more) add_flip(neighbour(moves_.back().value), below(2) == 0);
}

/// Of a run of values from the one at `to` on, as far as those behind another one are alike. False
/// if the same becomes of them.
bool Annealing::copy_layers(std::size_t to) {
  const Likeness likeness = below(2) == 0 ? Likeness::of_equal_size : Likeness::of_any_size;
  const std::size_t from = one_like(to, likeness);
  const std::size_t length = 1 + below(std::size_t{2} << below(kNumLengths));
  const std::size_t room = open_.size() - std::max(from, to);
  for (std::size_t i = 0; i < std::min(length, room); ++i) {
    if (!alike_.are_alike(from + i, to + i, likeness)) break;
    add_copy(from + i, to + i);
  }
  return !moves_.empty();
}

/// Any, or one in a layer nearby: those are more alike in what they hold and cost.
std::size_t Annealing::one_like(std::size_t position, Likeness likeness) {
  const auto alike = alike_.alike_to(position, likeness);
  if (below(2) == 0) return alike[below(alike.size())];
  const auto own =
      static_cast<std::size_t>(std::ranges::lower_bound(alike, position) - alike.begin());
  const std::size_t low = own > kNearLayers ? own - kNearLayers : 0;
  const std::size_t high = std::min(alike.size(), own + kNearLayers + 1);
  return alike[low + below(high - low)];
}

/// What becomes of the value at `from` is to become of that at `to`.
void Annealing::add_copy(std::size_t from, std::size_t to) {
  const Index v = open_[to];
  const bool keep = simulator_.keeps(open_[from]);
  const Index cached_from = time_after_copy(from, to);
  const bool is_as_before =
      keep == simulator_.keeps(v) && (keep || cached_from == simulator_.cached_from(v));
  if (!is_as_before) moves_.push_back({v, keep, cached_from});
}

/// When replays leave the value at `to` behind, if that is by the same part of its own layers as
/// for the one at `from`. As before where there is no such part.
Index Annealing::time_after_copy(std::size_t from, std::size_t to) const {
  const Index time = simulator_.cached_from(open_[from]);
  const Index event = time < 0 ? ~time : time;
  if (event == 0 || event == backward_begin_) return time;
  const std::size_t demanded = demanded_at_[event];
  const std::size_t part = demanded + to - from - 1;  // wraps around where that is before the first
  const bool is_demanded = demanded != 0 && part < open_.size() && first_demand_[open_[part]] != 0;
  if (!is_demanded) return simulator_.cached_from(open_[to]);
  const Index moved = first_demand_[open_[part]];
  return time < 0 ? ~moved : moved;
}

void Annealing::add_flip(Index v, bool keep) {
  if (v < 0 || std::ranges::count(moves_, v, &Move::value) > 0) return;
  moves_.push_back({v, keep, simulator_.cached_from(v)});
}

/// One of those made next to that at `position`.
Index Annealing::near(std::size_t position) {
  const std::size_t low = position > kReach ? position - kReach : 0;
  const std::size_t high = std::min(open_.size(), position + kReach);
  return open_[low + below(high - low)];
}

Index Annealing::neighbour(Index v) {
  const std::vector<Index>& known = neighbours_[position_[v] - 1];
  return known.empty() ? -1 : known[below(known.size())];
}

void Annealing::draw_timing(Index v) {
  const Index now = simulator_.cached_from(v);
  Index next = time_for(v);
  if (next == now) next = now == 0 ? ~backward_begin_ : 0;
  moves_.push_back({v, false, next});
  if (!goal_.any_time || below(5) >= 2) return;
  // Replays leave behind more than one value at a time where that pays.
  const Index other = below(2) == 0 ? neighbour(v) : near(position_[v] - 1);
  const bool is_dropped = other >= 0 && other != v && !simulator_.keeps(other);
  if (is_dropped) moves_.push_back({other, false, next});
}

/// When another value is first demanded, replays run that may pass by `v`.
Index Annealing::time_for(Index v) {
  const std::size_t kind = below(goal_.any_time ? 5 : 3);
  if (kind == 0) return 0;
  if (kind == 1) return first_demand_[v];
  if (kind == 2) return ~backward_begin_;
  const Index replays = first_demand_[open_[below(open_.size())]];
  return kind == 3 ? replays : ~replays;
}

}  // namespace gradrecomp::plan
