#pragma once

#include <CLI/CLI.hpp>

namespace gradrecomp::program {

/// Adds `gradrecomp train`, which trains a model twice from one seed, plain and planned; `status`
/// gets its exit status, 1 where losses or final parameters differ.
void add_train_command(CLI::App& app, int& status);

}  // namespace gradrecomp::program
