#include "plan/simulator/compiled_graph.h"

#include "plan/graph/choosable_values.h"
#include "plan/graph/transient_bytes.h"

namespace gradrecomp::plan {
namespace {

/// What of `bytes` is memory of the main device.
std::int64_t on_main_device(std::int64_t bytes, Index device) { return device == 0 ? bytes : 0; }

}  // namespace

CompiledGraph::CompiledGraph(const Graph& graph) : events(graph.events) {
  validate(graph);
  for (Event& event : events) {
    event.net_bytes = on_main_device(event.net_bytes, event.device);
    event.peak_bytes = on_main_device(event.peak_bytes, event.device);
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& v = graph.values[id];
    values.push_back({on_main_device(v.bytes, v.device), v.producer, v.overwrites, v.must_keep,
                      v.snapshot, v.overwritten_by < 0, v.rounds, must_stay_exact(graph, id)});
  }
  for (const Op& op : graph.ops) {
    OpFacts facts{.transient_bytes = forward_transient_bytes(op),
                  .replay_seconds = op.replay_seconds,
                  .joined_seconds = op.joined_seconds,
                  .flops = op.flops,
                  .bytes_moved = op.bytes_moved,
                  .joins = op.joins,
                  .is_part = op.is_part};
    facts.inputs_begin = static_cast<Index>(inputs_.size());
    inputs_.insert(inputs_.end(), op.inputs.begin(), op.inputs.end());
    facts.inputs_end = static_cast<Index>(inputs_.size());
    facts.outputs_begin = static_cast<Index>(outputs_.size());
    outputs_.insert(outputs_.end(), op.outputs.begin(), op.outputs.end());
    facts.outputs_end = static_cast<Index>(outputs_.size());
    for (const Index v : op.outputs) {
      const bool fresh = graph.values[v].overwrites < 0;
      facts.fresh_bytes += fresh ? values[v].bytes : 0;
      facts.in_place |= !fresh;
    }
    facts.replay_transient_bytes = op.by_kernel ? facts.fresh_bytes : op.transient_bytes;
    ops.push_back(facts);
  }
}

}  // namespace gradrecomp::plan
