#pragma once

#include <CLI/CLI.hpp>

namespace gradrecomp::program {

/// Adds `gradrecomp batch`, which finds the batch size and plan that make most of a memory budget,
/// and confirms them by real steps; `status` gets its exit status.
void add_batch_command(CLI::App& app, int& status);

}  // namespace gradrecomp::program
