#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "gradrecomp/options.h"
#include "input/named_file.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

/// Adds what says how a step of a model is taken, without its batch: --model to --seed, --grads and
/// --threads, which takes effect at once.
void add_model_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds the same and --batch.
void add_workload_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds --max-overhead, --max-peak and --policy, of which one may be given, --cost, --substitutes,
/// --offload and --forms.
void add_budget_arguments(CLI::App& command, Options& options);

/// Throws BadInput where --offload and --forms contradict each other.
void check_forms(const Options& options);

/// Adds --plan, which reads a plan file at once and takes the place of a budget.
CLI::Option* add_plan_argument(CLI::App& command, Options& options);

/// Adds --cost.
void add_cost_argument(CLI::App& command, plan::CostModel& cost);

/// Adds the option of `file`.
CLI::Option* add_file_argument(CLI::App& command, NamedFile& file, const std::string& help);

/// Adds --steps.
void add_steps_argument(CLI::App& command, std::int64_t& num_steps, const std::string& help,
                        std::int64_t least = 1);

}  // namespace gradrecomp::program
