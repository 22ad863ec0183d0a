#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// The facts of a value that a simulation asks for; bytes are of the main device.
struct ValueFacts {
  std::int64_t bytes;
  Index producer;
  Index overwrites;
  bool must_keep;
  bool snapshot;
  bool last_version;
  bool rounds;
  bool stays_exact;  ///< under plans that round
};

/// Those of an op.
struct OpFacts {
  std::int64_t transient_bytes = 0;
  std::int64_t replay_transient_bytes = 0;
  std::int64_t fresh_bytes = 0;  ///< of results in storages of their own
  double replay_seconds = 0;
  double joined_seconds = 0;
  double flops = 0;
  double bytes_moved = 0;
  Index inputs_begin = 0, inputs_end = 0;
  Index outputs_begin = 0, outputs_end = 0;
  bool in_place = false;
  bool joins = false;
  bool is_part = false;
};

/// A graph in flat arrays, as simulations read it over and over. Does not refer to the graph that
/// it comes from.
class CompiledGraph {
 public:
  /// Throws:  std::invalid_argument if validate(graph) does.
  explicit CompiledGraph(const Graph& graph);

  std::vector<ValueFacts> values;
  std::vector<OpFacts> ops;
  std::vector<Event> events;

  [[nodiscard]] std::span<const Index> inputs(Index op) const {
    return {inputs_.data() + ops[op].inputs_begin, inputs_.data() + ops[op].inputs_end};
  }
  [[nodiscard]] std::span<const Index> outputs(Index op) const {
    return {outputs_.data() + ops[op].outputs_begin, outputs_.data() + ops[op].outputs_end};
  }

 private:
  std::vector<Index> inputs_;
  std::vector<Index> outputs_;
};

}  // namespace gradrecomp::plan
