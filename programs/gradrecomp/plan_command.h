#pragma once

#include <CLI/CLI.hpp>

namespace gradrecomp::program {

/// Adds `gradrecomp plan`, which profiles one step of a model, plans for a budget and compares;
/// `status` gets its exit status.
void add_plan_command(CLI::App& app, int& status);

}  // namespace gradrecomp::program
