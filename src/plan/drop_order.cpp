#include "drop_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace gradrecomp::plan {
namespace {

double price_of(double cost, std::int64_t bytes) {
  return bytes > 0 ? std::max(cost, 0.0) / static_cast<double>(bytes)
                   : std::numeric_limits<double>::infinity();
}

}  // namespace

DropOrder::DropOrder(const Graph& graph, const Pricing& pricing)
    : graph_(graph),
      kept_(graph.values.size(), 0),
      wanted_(graph.values.size(), 0),
      wanted_outside_(graph.values.size(), 0),
      fixed_(graph.values.size(), 0) {
  for (const Op& op : graph.ops) cost_.push_back(pricing.total(op));
  for (const Value& v : graph.values) wanted_outside_[&v - graph.values.data()] = v.saved ? 1 : 0;
}

bool DropOrder::can_drop(Index v) const {
  const Value& x = graph_.values[v];
  return fixed_[v] == 0 && kept_[v] != 0 && !x.must_keep && !x.snapshot;
}

void DropOrder::start(const Block& block, Output output) {
  block_ = block;
  values_.clear();
  for (Index i = block.begin_op; i < block.end_op; ++i) {
    for (const Index v : graph_.ops[i].outputs) {
      values_.push_back(v);
      const Value& x = graph_.values[v];
      kept_[v] = x.overwritten_by < 0 || x.snapshot || x.must_keep ? 1 : 0;
      fixed_[v] = 0;
    }
  }
  for (const Index v : block.boundary) {
    if (graph_.values[v].producer < block.begin_op) continue;
    fixed_[v] = 1;
    wanted_outside_[v] = 1;
    if (output == Output::dropped && !graph_.values[v].must_keep) kept_[v] = 0;
  }
}

/// Bytes held and cost replayed in the block; leaves `wanted_` behind.
DropOrder::State DropOrder::evaluate() {
  State state;
  for (const Index v : values_) wanted_[v] = wanted_outside_[v];
  for (Index i = block_.end_op - 1; i >= block_.begin_op; --i) {
    const auto& outputs = graph_.ops[i].outputs;
    const bool replayed =
        std::ranges::any_of(outputs, [this](Index w) { return kept_[w] == 0 && wanted_[w] > 0; });
    if (!replayed) continue;
    state.cost += cost_[i];
    for (const Index u : graph_.ops[i].inputs) ++wanted_[u];
  }
  for (const Index v : values_) state.held_bytes += held(v) ? graph_.values[v].bytes : 0;
  return state;
}

/// Drops `v`; where that only makes the tape hold unsaved values instead, drops those too if
/// cheaper.
DropOrder::Move DropOrder::drop_with_followers(Index v, const State& now) {
  Move best{{v}, now, std::numeric_limits<double>::infinity()};
  std::vector<Index> dropped{v};
  std::vector<std::uint8_t> was_held(values_.size());
  evaluate();
  for (std::size_t i = 0; i < values_.size(); ++i) was_held[i] = held(values_[i]) ? 1 : 0;
  for (int round = 0; round < 3 && !dropped.empty(); ++round) {
    for (const Index u : dropped) kept_[u] = 0;
    const State after = evaluate();
    const double price = price_of(after.cost - now.cost, now.held_bytes - after.held_bytes);
    if (price < best.price) best = {dropped, after, price};
    const std::size_t before = dropped.size();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Index u = values_[i];
      if (was_held[i] == 0 && held(u) && can_drop(u)) dropped.push_back(u);
    }
    if (dropped.size() == before) break;
  }
  for (const Index u : dropped) kept_[u] = 1;
  return best;
}

bool DropOrder::best_move(const State& now, Move& best) {
  best.price = std::numeric_limits<double>::infinity();
  std::vector<Index> candidates;
  evaluate();
  for (const Index v : values_) {
    if (can_drop(v) && held(v)) candidates.push_back(v);
  }
  for (const Index v : candidates) {
    Move move = drop_with_followers(v, now);
    if (move.price < best.price) best = std::move(move);
  }
  return best.price < std::numeric_limits<double>::infinity();
}

/// Joins steps until prices never fall.
std::vector<DropStep> DropOrder::convex(const std::vector<DropStep>& steps,
                                        const std::vector<State>& states) {
  std::vector<DropStep> joined;
  std::vector<double> costs;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    DropStep step = steps[i];
    double cost = states[i + 1].cost - states[i].cost;
    while (!joined.empty() && joined.back().price >= price_of(cost, step.bytes)) {
      if (joined.back().price == price_of(cost, step.bytes)) break;
      step.bytes += joined.back().bytes;
      cost += costs.back();
      auto& earlier = joined.back().dropped;
      step.dropped.insert(step.dropped.begin(), earlier.begin(), earlier.end());
      joined.pop_back();
      costs.pop_back();
    }
    step.price = price_of(cost, step.bytes);
    joined.push_back(std::move(step));
    costs.push_back(cost);
  }
  return joined;
}

std::vector<DropStep> DropOrder::find(const Block& block, Output output) {
  start(block, output);
  std::vector<State> states{evaluate()};
  std::vector<DropStep> steps;
  for (Move move; best_move(states.back(), move);) {
    for (const Index v : move.dropped) kept_[v] = 0;
    steps.push_back({move.dropped, move.price, states.back().held_bytes - move.after.held_bytes});
    states.push_back(move.after);
  }
  return convex(steps, states);
}

}  // namespace gradrecomp::plan
