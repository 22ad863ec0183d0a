#include "plan/simulator/plan_checks.h"

#include <algorithm>
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

void check_leaving(const CompiledGraph& graph, const char* name, Index value, Index op) {
  const Index producer = graph.values[value].producer;
  if (op >= producer && op < static_cast<Index>(graph.ops.size())) return;
  raise({"Plan", name + std::string(" of value ") + std::to_string(value), spelled(op),
         "an op from its own, " + spelled(producer) + ", on",
         "Pass the graph that the plan was made for"});
}

bool can_leave(const ValueFacts& value) { return value.producer >= 0 && !value.must_keep; }

void check_offloads(const CompiledGraph& graph, std::span<const Offload> offloads,
                    std::span<const std::uint8_t> keep) {
  const auto num_values = static_cast<Index>(graph.values.size());
  Index last = -1;
  for (const auto& [value, leaves_after, returns_at] : offloads) {
    check_value(graph, value, std::exchange(last, value), "an offloaded value");
    if (!can_leave(graph.values[value]) || keep[value] == 0) {
      raise({"Plan", "an offloaded value", spelled(value),
             "one that an op makes, that can be replayed and that the plan keeps",
             "Offload nothing else"});
    }
    check_leaving(graph, "leaves_after", value, leaves_after);
    if (returns_at < -1 || returns_at >= num_values) {
      raise({"Plan", "returns_at of value " + std::to_string(value), spelled(returns_at),
             "-1 or a value", "Pass the graph that the plan was made for"});
    }
  }
}

void check_exact(const CompiledGraph& graph, std::span<const std::uint8_t> keep) {
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!graph.values[v].stays_exact || keep[v] != 0) continue;
    raise({"Plan", "keep of value " + std::to_string(v), "0",
           "1, as the plan rounds values and this one could be replayed from them with other bits",
           "Keep masks, integers and what is drawn, or round nothing"});
  }
}

void check_roundings(const CompiledGraph& graph, std::span<const Rounding> roundings,
                     std::span<const Offload> offloads, std::span<const std::uint8_t> keep) {
  if (!roundings.empty()) check_exact(graph, keep);
  Index last = -1;
  for (const auto& [value, after] : roundings) {
    check_value(graph, value, std::exchange(last, value), "a rounded value");
    const bool is_away = std::ranges::binary_search(offloads, value, {}, &Offload::value);
    const bool fits = can_leave(graph.values[value]) && graph.values[value].rounds && !is_away;
    if (!fits || keep[value] == 0) {
      raise({"Plan", "a rounded value", spelled(value),
             "one of float32 that an op makes, that can be replayed and that the plan keeps where "
             "it is",
             "Round nothing else"});
    }
    check_leaving(graph, "after", value, after);
  }
}

}  // namespace

void check_plan(const CompiledGraph& graph, std::span<const std::uint8_t> keep,
                std::span<const Sweep> sweeps) {
  if (keep.size() != graph.values.size()) {
    raise({"Plan", "keep.size()", spelled(keep.size()), "the number of values of the graph",
           "Pass one entry per value, here " + spelled(graph.values.size())});
  }
  check_sweeps(graph, sweeps);
}

void check_absences(const CompiledGraph& graph, std::span<const std::uint8_t> keep,
                    std::span<const Offload> offloads, std::span<const Rounding> roundings) {
  check_offloads(graph, offloads, keep);
  check_roundings(graph, roundings, offloads, keep);
}

}  // namespace gradrecomp::plan
