#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// What one step does under a kept set.
struct Simulation {
  std::int64_t peak_bytes = 0;        ///< highest live activation bytes above the step's start
  std::int64_t seal_bytes = 0;        ///< live when the forward pass of the region has ended
  Index peak_event = -1;              ///< position in Graph::events at which the peak occurs
  double replay_seconds = 0;
  double replay_flops = 0;
  std::int64_t num_replayed_ops = 0;
};

/// Replays the event log of `graph` around the values that `keep` holds, byte by byte.
///
/// Mimics the replay engine exactly; see Note [ The executor's rule ] in simulate.cpp.
/// Guarantees: the activation peak of a step on the same op sequence, equal to the byte on CPU.
/// Complexity: O(events + replayed ops + their inputs).
/// Throws:     std::invalid_argument if `keep` has another size than graph.values.
Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep);

/// The same, also returning live bytes after every event.
Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                    std::vector<std::int64_t>& live_bytes_after_event);

}  // namespace gradrecomp::plan
