#include "lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "min_cut.h"
#include "plan/graph/choosable_values.h"

// Note [ Lower bounds ]
// ~~~~~~~~~~~~~~~~~~~~~
// Let load(t) be the live bytes of a plan at moment t, cost its overhead, and w(t) weights that sum
// to 1. Then for any price p >= 0
//   peak + p cost >= sum w(t) load(t) + p cost >= value(w, p),
// the least of the middle over a set that contains all plans. So each (w, p) proves a line under
// which no plan lies, and the bound is the highest of the lines found.
//
// The set: an op is replayed (inside) or not. Where the maker of a saved value is not replayed the
// value is kept, and lives from the program's letting go of it to its last release; where it is,
// the value lives at least from its first demand on, and the op costs at least once, however often
// a plan replays it. A replayed op reads values whose makers are replayed too or that are kept; an
// unsaved value that is kept lives at least until the first release of all that its readers can be
// wanted for. What replays make early or hold in passing is left out. The least is a minimum cut.
//
// Weights follow the loads of the solutions (exponentiated gradient): moments at which the relaxed
// plan is high get more.
// Source: Held and Karp, The traveling-salesman problem and minimum spanning trees, 1971, for the
// relaxation; Kivinen and Warmuth, Exponentiated gradient, 1997, for the steps.

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1 - 1e-9;  // sums of many doubles must not prove too much

/// Per event, the highest live bytes if no value were kept or replayed.
std::vector<std::int64_t> base_bytes(const Graph& graph) {
  std::vector<std::int64_t> peaks;
  std::vector<std::uint8_t> owned(graph.values.size(), 0);
  std::int64_t live = 0;
  for (const Event& event : graph.events) {
    std::int64_t peak = live;
    if (event.kind == EventKind::run_op) {
      const Op& op = graph.ops[event.id];
      peak = live + forward_transient_bytes(op);
      for (const Index v : op.outputs) {
        const Value& x = graph.values[v];
        if (x.overwrites >= 0) owned[x.overwrites] = 0;
        live += x.overwrites < 0 ? x.bytes : 0;
        owned[v] = 1;
      }
    } else if (event.kind == EventKind::death && owned[event.id] != 0) {
      owned[event.id] = 0;
      live -= graph.values[event.id].bytes;
    } else if (event.kind == EventKind::outside) {
      peak = std::max(peak, live + event.peak_bytes);
      live += event.net_bytes;
    }
    peaks.push_back(std::max(peak, live));
  }
  return peaks;
}

}  // namespace

LowerBound::LowerBound(const Graph& graph, const ReplayCost& replay_cost)
    : graph_(&graph), readers_(graph.values.size()), lives_(graph.values.size()) {
  for (const Op& op : graph.ops) cost_.push_back(replay_cost.overhead(op));
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Index u : graph.ops[i].inputs) readers_[u].push_back(static_cast<Index>(i));
  }
  const std::vector<std::int64_t> base = base_bytes(graph);
  choose_moments(base);
  scale_bytes_ = static_cast<double>(1 + saved_bytes(graph));
  for (const Index t : moments_) base_.push_back(static_cast<double>(base[t]) / scale_bytes_);
  find_lives();
  // Where all is replayed, each moment is at its lowest: the highest of these is the floor.
  const Relaxed lowest = loads_of(std::vector<std::uint8_t>(graph.ops.size(), 1));
  if (!lowest.loads.empty()) lines_.push_back({0, std::ranges::max(lowest.loads)});
  constexpr double kSharpness = 30;
  const std::vector<std::uint8_t> none(graph.ops.size(), 0);
  for (const double load : loads_of(none).loads) log_weights_.push_back(kSharpness * load);
}

/// The highest event of every few.
void LowerBound::choose_moments(const std::vector<std::int64_t>& base_bytes) {
  constexpr std::size_t kStride = 6;
  for (std::size_t begin = 0; begin < base_bytes.size(); begin += kStride) {
    const auto first = base_bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(kStride, base_bytes.size() - begin);
    const auto highest = std::max_element(first, first + static_cast<std::ptrdiff_t>(count));
    moments_.push_back(static_cast<Index>(highest - base_bytes.begin()));
  }
}

/// The first moment after `event`.
Index LowerBound::moment_behind(Index event) const {
  return static_cast<Index>(std::ranges::upper_bound(moments_, event) - moments_.begin());
}

void LowerBound::find_lives() {
  std::ranges::fill(lives_, Life{});
  for (std::size_t t = 0; t < graph_->events.size(); ++t) {
    const Event& event = graph_->events[t];
    if (event.kind == EventKind::pass_end) end_pass(moment_behind(static_cast<Index>(t)));
    const bool of_life = event.kind == EventKind::death || event.kind == EventKind::demand ||
                         event.kind == EventKind::release;
    if (!of_life) continue;
    const Index moment = moment_behind(static_cast<Index>(t));
    Life& life = lives_[event.id];
    if (event.kind == EventKind::death) life = {.death = moment};
    if (event.kind == EventKind::release) life.release = moment;
    const bool is_first = life.death != Life::kNever && !life.is_demanded();
    if (event.kind == EventKind::demand && is_first) life.demand = moment;
  }
  for (std::size_t i = graph_->ops.size(); i-- > 0;) {
    for (const Index v : graph_->ops[i].outputs) {
      if (!graph_->values[v].saved) find_unsaved_release(v);
    }
  }
}

/// What replays have left behind goes, though later passes may ask for it once more.
void LowerBound::end_pass(Index moment) {
  for (Life& life : lives_) {
    if (life.is_demanded()) life.demand_end = std::min(life.demand_end, moment);
  }
}

void LowerBound::find_unsaved_release(Index v) {
  Index release = Life::kNever;
  for (const Index op : readers_[v]) {
    for (const Index w : graph_->ops[op].outputs) release = std::min(release, lives_[w].release);
  }
  lives_[v].release = release == Life::kNever ? 0 : release;
}

bool LowerBound::is_free(const Value& v) const { return v.producer < 0 || v.snapshot; }
bool LowerBound::can_keep(const Value& v) const { return v.overwritten_by < 0; }

double LowerBound::share(Index v) const {
  return static_cast<double>(graph_->values[v].bytes) / scale_bytes_;
}

double LowerBound::weight(Index from, Index to) const {
  return to > from ? weights_before_[to] - weights_before_[from] : 0;
}

void LowerBound::set_weights() {
  const double highest = std::ranges::max(log_weights_);
  weights_.clear();
  double sum = 0;
  for (const double log_weight : log_weights_) {
    weights_.push_back(std::exp(log_weight - highest));
    sum += weights_.back();
  }
  weights_before_.assign(1, 0);
  for (double& weight : weights_) {
    weight /= sum;
    weights_before_.push_back(weights_before_.back() + weight);
  }
}

LowerBound::Relaxed LowerBound::loads_of(const std::vector<std::uint8_t>& replayed) const {
  Relaxed relaxed{0, std::vector<double>(base_.size() + 1, 0)};
  const auto alive = [&](Index v, Index from, Index to) {
    if (from >= to) return;
    relaxed.loads[from] += share(v);
    relaxed.loads[to] -= share(v);
  };
  const auto wanted = [&](Index op) { return replayed[op] != 0; };
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    relaxed.overhead += replayed[i] != 0 ? cost_[i] : 0;
    for (const Index v : graph_->ops[i].outputs) {
      const Value& x = graph_->values[v];
      const Life& life = lives_[v];
      if (is_free(x) || !can_keep(x)) continue;
      if (x.saved && (replayed[i] == 0 || x.must_keep)) {
        if (life.is_demanded()) alive(v, life.death, life.release);
      } else if (x.saved) {
        if (life.is_demanded()) alive(v, life.demand, life.end_if_replayed());
      } else if (replayed[i] == 0 && !x.must_keep && std::ranges::any_of(readers_[v], wanted)) {
        alive(v, life.death, life.release);
      }
    }
  }
  double sum = 0;
  for (std::size_t m = 0; m < base_.size(); ++m) {
    sum += relaxed.loads[m];
    relaxed.loads[m] = base_[m] + sum;
  }
  relaxed.loads.pop_back();
  return relaxed;
}

/// Solves the relaxation for the current weights and notes the line it proves.
LowerBound::Relaxed LowerBound::relax(double price) {
  const auto num_ops = static_cast<Index>(graph_->ops.size());
  Index num_nodes = num_ops;
  std::vector<Index> node_of(graph_->values.size(), -1);
  for (std::size_t v = 0; v < graph_->values.size(); ++v) {
    const bool shared = !graph_->values[v].saved && readers_[v].size() > 1;
    if (shared) node_of[v] = num_nodes++;
  }
  MinCut cut(num_nodes);
  double always = 0;
  for (std::size_t m = 0; m < base_.size(); ++m) always += weights_[m] * base_[m];
  for (Index i = 0; i < num_ops; ++i) cut.add_costs(i, price * cost_[i], 0);
  for (Index v = 0; v < static_cast<Index>(graph_->values.size()); ++v) {
    const Value& x = graph_->values[v];
    const Life& life = lives_[v];
    if (is_free(x)) continue;
    const double kept = share(v) * weight(life.death, life.release);
    if (!can_keep(x)) {
      for (const Index op : readers_[v]) {
        if (op != x.producer && !x.must_keep) cut.require(op, x.producer);
      }
    } else if (x.must_keep) {
      always += x.saved && life.is_demanded() ? kept : 0;
    } else if (x.saved) {
      if (!life.is_demanded()) continue;
      const double made_again = share(v) * weight(life.demand, life.end_if_replayed());
      cut.add_costs(x.producer, made_again, kept);
    } else if (node_of[v] >= 0) {
      for (const Index op : readers_[v]) cut.require(op, node_of[v]);
      cut.add_penalty(node_of[v], x.producer, kept);
    } else if (!readers_[v].empty()) {
      cut.add_penalty(readers_[v].front(), x.producer, kept);
    }
  }
  lines_.push_back({price, always + cut.solve()});
  std::vector<std::uint8_t> replayed(num_ops);
  for (Index i = 0; i < num_ops; ++i) replayed[i] = cut.inside(i) ? 1 : 0;
  least_solutions_.push_back(replayed);
  return loads_of(replayed);
}

void LowerBound::tighten(double overhead, int num_cuts) {
  double low = 0;
  double high = 0;
  double price = 1;
  least_solutions_.clear();
  for (int i = 0; i < num_cuts; ++i) {
    set_weights();
    const Relaxed relaxed = relax(price);
    const bool too_dear = relaxed.overhead > overhead;
    (too_dear ? low : high) = price;
    const double step = std::sqrt(8.0 / (i + 8.0));
    if (low == 0 || high == 0) {
      price *= too_dear ? 4 : 0.25;
    } else if (i < num_cuts / 3) {
      price = std::sqrt(low * high);
    } else {
      price *= std::exp((too_dear ? 0.2 : -0.2) * step);
    }
    constexpr double kRate = 20;
    for (std::size_t m = 0; m < base_.size(); ++m)
      log_weights_[m] += kRate * step * relaxed.loads[m];
  }
}

std::int64_t LowerBound::peak_bytes(double overhead) const {
  double highest = 0;
  for (const Line& line : lines_) {
    highest = std::max(highest, kRounding * line.value - line.price * overhead);
  }
  return static_cast<std::int64_t>(highest * scale_bytes_);
}

double LowerBound::overhead(std::int64_t peak_bytes) const {
  double highest = 0;
  for (const Line& line : lines_) {
    if (line.price <= 0) continue;
    const double peak = static_cast<double>(peak_bytes) / scale_bytes_;
    highest = std::max(highest, (kRounding * line.value - peak) / line.price);
  }
  return highest;
}

}  // namespace gradrecomp::plan
