#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "gradrecomp/plan/graph.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::test {

/// `graph`, a random one of a single device, with its values and other memory on either of two.
inline plan::Graph on_two_devices(plan::Graph graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto either = [&] { return static_cast<plan::Index>(random() % 2); };
  graph.devices = {"cuda:0", "cpu"};
  for (plan::Value& v : graph.values) {
    v.device = v.overwrites >= 0 ? graph.values[v.overwrites].device : either();
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    plan::Op& op = graph.ops[i];
    op.further_transient_bytes = {static_cast<std::int64_t>(random() % 80)};
    if (!op.joins) continue;
    const auto device_of = [&](const plan::Op& o) { return graph.values[o.outputs[0]].device; };
    op.joins = device_of(op) == device_of(graph.ops[i - 1]);
    if (!op.joins) op.joined_seconds = 0;
  }
  for (plan::Event& event : graph.events) {
    if (event.kind == plan::EventKind::outside) event.device = either();
  }
  return graph;
}

inline plan::Graph random_two_devices(std::uint64_t seed, const RandomGraphOptions& options = {}) {
  return on_two_devices(RandomGraph(options, seed).draw(), seed);
}

}  // namespace gradrecomp::test
