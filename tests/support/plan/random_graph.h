#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::test {

/// What a random graph may contain; each chance is out of 100.
struct RandomGraphOptions {
  int num_ops = 12;
  int num_externals = 2;
  int in_place_chance = 25;
  int snapshot_chance = 30;  ///< of an overwritten value
  int must_keep_chance = 8;  ///< of an op's outputs
  int save_chance = 55;      ///< of each value an op reads or makes
  int join_chance = 60;      ///< of an op that could
  int pass_end_chance = 0;   ///< of each handle that comes back to be the last of its pass
  int death_chance = 40;     ///< of a value to die after each op; the others outlive the region
  bool operator==(const RandomGraphOptions&) const = default;
};

/// Draws a step that a profiler could have logged: any DAG, in-place chains, several outputs,
/// snapshots, values that cannot be replayed, deaths before and after the seal, and a backward
/// that demands and releases in any order.
class RandomGraph {
 public:
  RandomGraph(const RandomGraphOptions& options, std::uint64_t seed)
      : options_(options), random_(seed) {}

  plan::Graph draw() {
    graph_.stages = {{"first"}, {"second"}};
    for (int e = 0; e < options_.num_externals; ++e) graph_.values.push_back({});
    for (int e = 0; e < options_.num_externals; ++e) readable_.push_back(e);
    for (int i = 0; i < options_.num_ops; ++i) {
      draw_op();
      draw_deaths();
    }
    add(plan::EventKind::seal, -1);
    draw_backward();
    resolve_saves();
    return graph_;
  }

 private:
  using Index = plan::Index;

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  void add(plan::EventKind kind, Index id) { graph_.events.push_back({.kind = kind, .id = id}); }
  plan::Value& value(Index v) { return graph_.values[v]; }

  void draw_op() {
    const auto op = static_cast<Index>(graph_.ops.size());
    plan::Op next;
    next.name = "op" + std::to_string(op);
    next.stage = 2 * op < options_.num_ops ? 0 : 1;
    next.replay_seconds = next.forward_seconds = 1 + below(9);
    next.is_part = op > 0 && chance(10);
    next.by_kernel = chance(20);
    next.flops = chance(50) ? 0 : 1 + below(9);
    next.bytes_moved = 1 + below(9);
    next.inputs = readable_;
    std::ranges::shuffle(next.inputs, random_);
    next.inputs.resize(std::min<std::size_t>(next.inputs.size(), 1 + below(3)));
    graph_.ops.push_back(next);
    draw_outputs(op);
    draw_joining(op);
    graph_.step_seconds += 3 * next.forward_seconds;
    graph_.step_flops += 3 * next.flops;
  }

  void draw_joining(Index i) {
    plan::Op& op = graph_.ops[i];
    if (i == 0 || op.outputs.size() != 1 || graph_.ops[i - 1].outputs.size() != 1) return;
    const bool follows = std::ranges::count(op.inputs, graph_.ops[i - 1].outputs.front()) == 1;
    op.joins = follows && chance(options_.join_chance);
    if (op.joins) op.joined_seconds = below(static_cast<int>(op.replay_seconds));
  }

  void draw_outputs(Index op) {
    std::vector<Index> targets;
    for (const Index u : graph_.ops[op].inputs) {
      if (value(u).producer >= 0 && chance(options_.in_place_chance)) targets.push_back(u);
    }
    for (const Index u : targets) draw_output(op, u);
    const int num_fresh = targets.empty() ? 1 + below(2) : below(2);
    for (int f = 0; f < num_fresh; ++f) draw_output(op, -1);
    mark_must_keep(op);
    std::int64_t fresh_bytes = 0;
    for (const Index v : graph_.ops[op].outputs) {
      fresh_bytes += value(v).overwrites < 0 ? value(v).bytes : 0;
    }
    graph_.ops[op].transient_bytes = fresh_bytes + (chance(50) ? 0 : below(40));
    add(plan::EventKind::run_op, op);
    draw_saves(op);
  }

  void draw_output(Index op, Index overwritten) {
    const auto v = static_cast<Index>(graph_.values.size());
    plan::Value made{.bytes = 1 + below(60), .producer = op, .overwrites = overwritten};
    if (overwritten >= 0) {
      made.bytes = value(overwritten).bytes;
      value(overwritten).overwritten_by = v;
      value(overwritten).snapshot = chance(options_.snapshot_chance);
      std::erase(readable_, overwritten);
    }
    graph_.values.push_back(made);
    graph_.ops[op].outputs.push_back(v);
    readable_.push_back(v);
  }

  /// By chance; and always where an input cannot come back, being unreplayable and overwritten.
  void mark_must_keep(Index op) {
    bool must_keep = chance(options_.must_keep_chance);
    for (const Index u : graph_.ops[op].inputs) must_keep |= lost(u);
    for (const Index v : graph_.ops[op].outputs) value(v).must_keep = must_keep;
    for (Index i = 0; i <= op; ++i) {  // earlier readers of what this op has just overwritten
      const auto& inputs = graph_.ops[i].inputs;
      if (!std::ranges::any_of(inputs, [this](Index u) { return lost(u); })) continue;
      for (const Index v : graph_.ops[i].outputs) value(v).must_keep = true;
    }
  }

  [[nodiscard]] bool lost(Index u) {
    return value(u).must_keep && value(u).overwritten_by >= 0 && !value(u).snapshot;
  }

  void draw_saves(Index op) {
    std::vector<Index> candidates = graph_.ops[op].inputs;
    const auto& outputs = graph_.ops[op].outputs;
    candidates.insert(candidates.end(), outputs.begin(), outputs.end());
    for (const Index v : candidates) {
      if (chance(options_.save_chance)) add(plan::EventKind::save, v);
    }
  }

  void draw_deaths() {
    if (readable_.size() < 3 || !chance(options_.death_chance)) return;
    const Index v = readable_[below(static_cast<int>(readable_.size()))];
    if (value(v).producer < 0) return;
    std::erase(readable_, v);
    add(plan::EventKind::death, v);
    if (chance(30)) draw_outside();
  }

  void draw_outside() {
    const int net = below(30);
    graph_.events.push_back({plan::EventKind::outside, -1, net, net + below(20)});
    outside_bytes_ += net;
  }

  void resolve_saves() {
    for (plan::Event& event : graph_.events) {
      if (event.kind != plan::EventKind::save) continue;
      event.id = last_version(event.id);
      value(event.id).saved = true;
    }
  }

  Index last_version(Index v) {
    while (value(v).overwritten_by >= 0) v = value(v).overwritten_by;
    return v;
  }

  /// Handles come back about last in, first out; some demands repeat, some handles never come back.
  void draw_backward() {
    std::vector<Index> handles;
    for (const plan::Event& event : graph_.events) {
      if (event.kind == plan::EventKind::save) handles.push_back(last_version(event.id));
    }
    while (!handles.empty()) {
      const auto back = std::min<std::size_t>(handles.size(), 1 + below(3));
      const Index v = handles[handles.size() - back];
      handles.erase(handles.end() - static_cast<std::ptrdiff_t>(back));
      if (chance(80)) add(plan::EventKind::demand, v);
      if (chance(10)) add(plan::EventKind::demand, v);
      if (chance(50)) draw_outside();
      if (chance(95)) add(plan::EventKind::release, v);
      if (chance(options_.pass_end_chance)) add(plan::EventKind::pass_end, -1);
      draw_late_death();
    }
    graph_.events.push_back({plan::EventKind::outside, -1, -outside_bytes_, 0});
  }

  void draw_late_death() {
    if (readable_.empty() || !chance(25)) return;
    const Index v = readable_.back();
    readable_.pop_back();
    if (value(v).producer >= 0) add(plan::EventKind::death, v);
  }

  RandomGraphOptions options_;
  std::mt19937_64 random_;
  plan::Graph graph_;
  std::vector<Index> readable_;
  std::int64_t outside_bytes_ = 0;
};

}  // namespace gradrecomp::test
