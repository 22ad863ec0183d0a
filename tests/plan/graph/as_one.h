#pragma once

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::test {

/// The same step as if all of its memory were one.
inline plan::Graph as_one(plan::Graph graph) {
  graph.devices.clear();
  for (plan::Value& v : graph.values) v.device = 0;
  for (plan::Event& event : graph.events) event.device = 0;
  for (plan::Op& op : graph.ops) op.further_transient_bytes.clear();
  return graph;
}

}  // namespace gradrecomp::test
