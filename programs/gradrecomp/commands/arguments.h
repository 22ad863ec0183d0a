#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "gradrecomp/options.h"
#include "workload/gradients.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// What a batch of one may be at most, and what the program does in a row.
inline constexpr std::int64_t kMostSteps = 1000000;

/// Adds --model, --image-size, --sequence, --layers, --device, --dtype, --autocast,
/// --channels-last, --data, --seed.
void add_model_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds the same and --batch.
void add_workload_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds --max-overhead, --max-peak and --policy, of which one may be given, --cost, --substitutes
/// and --offload.
void add_budget_arguments(CLI::App& command, Options& options);

/// Adds --plan, which reads a plan file at once and takes the place of a budget.
void add_plan_argument(CLI::App& command, Options& options);

/// Adds --cost.
void add_cost_argument(CLI::App& command, plan::CostModel& cost);

/// Adds --grads.
void add_gradients_argument(CLI::App& command, Gradients& gradients);

/// Adds --threads, which takes effect at once.
void add_threads_argument(CLI::App& command);

}  // namespace gradrecomp::program
