#pragma once

#include <cstdint>
#include <span>

#include "gradrecomp/plan/plan.h"
#include "plan/simulator/compiled_graph.h"

namespace gradrecomp::plan {

/// Checks what a plan keeps and the sweeps that it lists before it is simulated: they may come from
/// a file, or belong to another graph.
///
/// Throws:  std::invalid_argument as Simulator::run() says.
void check_plan(const CompiledGraph& graph, std::span<const std::uint8_t> keep,
                std::span<const Sweep> sweeps);

/// The same of what it sends away or rounds.
void check_absences(const CompiledGraph& graph, std::span<const std::uint8_t> keep,
                    std::span<const Offload> offloads, std::span<const Rounding> roundings);

}  // namespace gradrecomp::plan
