#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::test {

using plan::Event;
using plan::EventKind;
using plan::Graph;
using plan::Index;

/// One operator call as a test writes it.
struct Call {
  std::string name = "op";
  std::vector<Index> reads = {};
  std::vector<std::int64_t> fresh_bytes = {};  ///< one new storage each
  std::vector<Index> overwrites = {};          ///< read and overwritten in place
  Index takes_over = -1;  ///< overwritten unread, by a part of the call before, which has read it
  double flops = 0;
  double seconds = 1;
  std::int64_t workspace_bytes = 0;  ///< needed while it runs, besides its outputs
};

/// Builds the graph of a step call by call; its backward runs the calls in reverse.
///
/// A storage dies with its last use in forward; the gradient of each value that is not external
/// lives from the first backward call that reads the value to that of its producer.
class StepBuilder {
 public:
  StepBuilder() { stage("stage0"); }

  void stage(std::string name) {
    if (num_calls_in_stage_ == 0 && !graph_.stages.empty()) graph_.stages.pop_back();
    graph_.stages.push_back({std::move(name)});
    num_calls_in_stage_ = 0;
  }

  Index external() {
    graph_.values.push_back({});
    return last_value();
  }

  /// Returns the outputs, fresh ones first.
  std::vector<Index> run(Call call) {
    const auto op = static_cast<Index>(graph_.ops.size());
    std::vector<Index> outputs;
    std::int64_t transient_bytes = call.workspace_bytes;
    for (const std::int64_t bytes : call.fresh_bytes) {
      transient_bytes += bytes;
      graph_.values.push_back({.bytes = bytes, .producer = op});
      outputs.push_back(last_value());
    }
    const bool is_part = call.takes_over >= 0;
    call.reads.insert(call.reads.end(), call.overwrites.begin(), call.overwrites.end());
    if (is_part) call.overwrites.push_back(call.takes_over);
    for (const Index u : call.overwrites) {
      graph_.values.push_back({.bytes = graph_.values[u].bytes, .producer = op, .overwrites = u});
      outputs.push_back(last_value());
      graph_.values[u].overwritten_by = outputs.back();
    }
    ++num_calls_in_stage_;
    graph_.ops.push_back({.name = std::move(call.name),
                          .stage = static_cast<Index>(graph_.stages.size()) - 1,
                          .inputs = std::move(call.reads),
                          .outputs = outputs,
                          .forward_seconds = call.seconds,
                          .replay_seconds = call.seconds,
                          .flops = call.flops,
                          .transient_bytes = transient_bytes,
                          .is_part = is_part,
                          .by_kernel = is_part});
    saves_.emplace_back();
    return outputs;
  }

  /// Autograd saves `v` for the backward of the latest call.
  void save(Index v) { saves_.back().push_back(v); }

  plan::Value& value(Index v) { return graph_.values[v]; }

  /// What the last call made stays with the program for good.
  Graph finish() {
    std::vector<std::vector<Index>> deaths = find_deaths();
    for (Index op = 0; op < num_ops(); ++op) {
      add(EventKind::run_op, op);
      for (Index& v : saves_[op]) {
        v = last_version(v);
        graph_.values[v].saved = true;
        add(EventKind::save, v);
      }
      for (const Index v : deaths[op]) {
        if (graph_.values[v].producer + 1 < num_ops()) add(EventKind::death, v);
      }
    }
    add(EventKind::seal, -1);
    add_backward();
    for (const plan::Op& op : graph_.ops) {
      graph_.step_seconds += 3 * op.forward_seconds;
      graph_.step_flops += 3 * op.flops;
    }
    return std::move(graph_);
  }

 private:
  [[nodiscard]] Index num_ops() const { return static_cast<Index>(graph_.ops.size()); }
  [[nodiscard]] Index last_value() const { return static_cast<Index>(graph_.values.size()) - 1; }

  [[nodiscard]] Index last_version(Index v) const {
    while (graph_.values[v].overwritten_by >= 0) v = graph_.values[v].overwritten_by;
    return v;
  }

  void add(EventKind kind, Index id) { graph_.events.push_back({.kind = kind, .id = id}); }

  void allocate(std::int64_t net_bytes, std::int64_t peak_bytes) {
    graph_.events.push_back({EventKind::outside, -1, net_bytes, peak_bytes});
  }

  /// Per op the last contents of the storages that no later op touches.
  [[nodiscard]] std::vector<std::vector<Index>> find_deaths() const {
    std::vector<Index> last_op(graph_.values.size(), -1);
    for (Index op = 0; op < num_ops(); ++op) {
      for (const Index v : graph_.ops[op].inputs) last_op[last_version(v)] = op;
      for (const Index v : graph_.ops[op].outputs) last_op[last_version(v)] = op;
    }
    std::vector<std::vector<Index>> deaths(graph_.ops.size());
    for (Index v = 0; v <= last_value(); ++v) {
      const bool is_storage = graph_.values[v].producer >= 0 && graph_.values[v].overwritten_by < 0;
      if (is_storage) deaths[last_op[v]].push_back(v);
    }
    return deaths;
  }

  void add_backward() {
    std::vector<bool> has_gradient(graph_.values.size(), false);
    for (Index op = num_ops() - 1; op >= 0; --op) {
      for (const Index v : saves_[op]) add(EventKind::demand, v);
      std::int64_t gradient_bytes = 0;
      for (const Index u : graph_.ops[op].inputs) {
        if (has_gradient[last_version(u)]) continue;
        has_gradient[last_version(u)] = true;
        gradient_bytes += graph_.values[u].bytes;
      }
      allocate(gradient_bytes, gradient_bytes);
      for (const Index v : saves_[op]) add(EventKind::release, v);
      for (const Index v : graph_.ops[op].outputs) {
        if (graph_.values[v].overwrites >= 0 || !has_gradient[last_version(v)]) continue;
        has_gradient[last_version(v)] = false;
        allocate(-graph_.values[v].bytes, 0);
      }
    }
  }

  Graph graph_;
  std::vector<std::vector<Index>> saves_;
  Index num_calls_in_stage_ = 0;
};

/// What the chain of a test looks like.
struct ChainOptions {
  std::vector<std::int64_t> bytes = {};  ///< of each op's output
  std::vector<double> seconds = {};      ///< of each op
};

/// A chain in which every op saves its input, and the last one its output too.
inline Graph chain_graph(const ChainOptions& options) {
  StepBuilder step;
  Index v = step.external();
  for (std::size_t i = 0; i < options.bytes.size(); ++i) {
    step.stage("stage" + std::to_string(i));
    const Index x = v;
    v = step.run({.name = "link",
                  .reads = {x},
                  .fresh_bytes = {options.bytes[i]},
                  .flops = options.seconds[i],
                  .seconds = options.seconds[i]})
            .front();
    step.save(x);
  }
  step.save(v);
  return step.finish();
}

}  // namespace gradrecomp::test
