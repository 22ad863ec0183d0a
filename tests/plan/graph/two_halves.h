#pragma once

#include <cstdint>
#include <utility>

#include "gradrecomp/plan/graph.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::test {

/// A chain whose links are on one device up to the middle, and on the other from there on.
inline Graph two_halves(std::int64_t first_bytes, std::int64_t second_bytes) {
  constexpr Index kHalf = 8;
  ChainOptions options;
  for (Index i = 0; i < 2 * kHalf; ++i) {
    options.bytes.push_back(i < kHalf ? first_bytes : second_bytes);
    options.seconds.push_back(1);
  }
  Graph graph = chain_graph(options);
  graph.devices = {"cuda:0", "cpu"};
  for (plan::Value& v : graph.values) v.device = v.producer < kHalf ? 0 : 1;
  for (Index i = kHalf; i < 2 * kHalf; ++i) {
    graph.ops[i].further_transient_bytes = {std::exchange(graph.ops[i].transient_bytes, 0)};
  }
  bool is_second = true;  // backward begins there
  Index num_demands = 0;
  for (Event& event : graph.events) {
    if (event.kind == EventKind::demand) is_second = ++num_demands <= kHalf + 1;
    if (event.kind == EventKind::outside) event.device = is_second ? 1 : 0;
  }
  return graph;
}

}  // namespace gradrecomp::test
