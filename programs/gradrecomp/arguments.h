#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "gradients.h"
#include "gradrecomp/region/options.h"
#include "workload.h"

namespace gradrecomp::program {

/// Adds an option whose last value given is handed to `set`, which may throw BadInput.
void add_argument(CLI::App& command, const std::string& name, const std::string& help,
                  std::function<void(const std::string&)> set);

/// Adds --model, --image-size, --sequence, --layers, --device, --dtype, --autocast,
/// --channels-last, --data, --seed.
void add_model_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds the same and --batch.
void add_workload_arguments(CLI::App& command, WorkloadOptions& options);

/// Adds --max-overhead, --max-peak, --cost, --policy, --substitutes and --offload.
void add_budget_arguments(CLI::App& command, Options& options);

/// Adds --grads.
void add_gradients_argument(CLI::App& command, Gradients& gradients);

/// Adds --threads, which takes effect at once.
void add_threads_argument(CLI::App& command);

/// Checks that at most one budget, policy or plan is given.
/// Throws:  BadInput otherwise.
void check_budget(const Options& options);

}  // namespace gradrecomp::program
