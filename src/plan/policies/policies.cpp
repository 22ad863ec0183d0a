#include "gradrecomp/plan/policies.h"

#include <cstddef>
#include <utility>

#include "plan/graph/closure.h"
#include "plan/graph/op_groups.h"
#include "plan/graph/wanted_values.h"

namespace gradrecomp::plan {
namespace {

/// Keeps `v`, or the outputs of ops with FLOPs that its replay needs if they are fewer bytes.
void avoid_flops(const Graph& graph, Index v, Closure& closure, KeptSet& keep) {
  std::int64_t bytes = 0;
  bool can_keep = true;
  std::vector<Index> sources;
  for (const Index op : closure.find(v, keep)) {
    if (graph.ops[op].flops == 0) continue;
    for (const Index u : graph.ops[op].outputs) {
      sources.push_back(u);
      bytes += graph.values[u].bytes;
      can_keep &= graph.values[u].overwritten_by < 0;
    }
  }
  if (sources.empty()) return;
  if (!can_keep || bytes >= graph.values[v].bytes) sources.assign(1, v);
  for (const Index u : sources) keep[u] = 1;
}

}  // namespace

KeptSet pointwise_only(const Graph& graph) {
  KeptSet keep = drop_all(graph);
  for (std::size_t v = 0; v < keep.size(); ++v) {
    const Value& x = graph.values[v];
    if (x.saved && x.producer >= 0 && graph.ops[x.producer].flops > 0) keep[v] = 1;
  }
  Closure closure(graph);
  for (const Op& op : graph.ops) {
    for (const Index v : op.outputs) {
      if (graph.values[v].saved) avoid_flops(graph, v, closure, keep);
    }
  }
  return keep;
}

KeptSet selective(const Graph& graph) {
  KeptSet keep = every_k(graph, 1);
  for (const Op& op : graph.ops) {
    if (op.flops == 0) continue;
    for (const Index v : op.outputs) keep[last_version(graph, v)] = 1;
  }
  return only_wanted(graph, std::move(keep));
}

}  // namespace gradrecomp::plan
