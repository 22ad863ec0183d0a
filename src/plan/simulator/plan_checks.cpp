#include "plan/simulator/plan_checks.h"

#include <string>
#include <utility>

#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

void check_value(const CompiledGraph& graph, Index v, Index previous, const char* name) {
  const bool ascends = v > previous && v < static_cast<Index>(graph.values.size());
  if (ascends && graph.values[v].last_version) return;
  raise({"Plan", name, spelled(v),
         ascends ? "the last version of its storage"
                 : "a value of the graph above the one before it, " + spelled(previous),
         "Sort what a plan lists, each value once, and pass the graph it was made for"});
}

void check_sweeps(const CompiledGraph& graph, std::span<const Sweep> sweeps) {
  Index last_target = -1;
  for (const Sweep& sweep : sweeps) {
    check_value(graph, sweep.target, std::exchange(last_target, sweep.target), "target of a sweep");
    Index last_cached = -1;
    for (const Index v : sweep.cached) {
      check_value(graph, v, std::exchange(last_cached, v), "a value cached by a sweep");
    }
  }
}

void check_offloads(const CompiledGraph& graph, std::span<const Offload> offloads,
                    std::span<const std::uint8_t> keep) {
  const auto num_values = static_cast<Index>(graph.values.size());
  const auto num_ops = static_cast<Index>(graph.ops.size());
  Index last = -1;
  for (const auto& [value, leaves_after, returns_at] : offloads) {
    check_value(graph, value, std::exchange(last, value), "an offloaded value");
    const Index producer = graph.values[value].producer;
    if (producer < 0 || graph.values[value].must_keep || keep[value] == 0) {
      raise({"Plan", "an offloaded value", spelled(value),
             "one that an op makes, that can be replayed and that the plan keeps",
             "Offload nothing else"});
    }
    if (leaves_after < producer || leaves_after >= num_ops) {
      raise({"Plan", "leaves_after of value " + std::to_string(value), spelled(leaves_after),
             "an op from its own, " + spelled(producer) + ", on",
             "Pass the graph that the plan was made for"});
    }
    if (returns_at < -1 || returns_at >= num_values) {
      raise({"Plan", "returns_at of value " + std::to_string(value), spelled(returns_at),
             "-1 or a value", "Pass the graph that the plan was made for"});
    }
  }
}

}  // namespace

void check_plan(const CompiledGraph& graph, std::span<const std::uint8_t> keep,
                std::span<const Sweep> sweeps, std::span<const Offload> offloads) {
  if (keep.size() != graph.values.size()) {
    raise({"Plan", "keep.size()", spelled(keep.size()), "the number of values of the graph",
           "Pass one entry per value, here " + spelled(graph.values.size())});
  }
  check_sweeps(graph, sweeps);
  check_offloads(graph, offloads, keep);
}

}  // namespace gradrecomp::plan
