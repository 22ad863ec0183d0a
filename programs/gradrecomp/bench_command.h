#pragma once

#include <CLI/CLI.hpp>

namespace gradrecomp::program {

/// Adds `gradrecomp bench`, which measures a model under several plans; `status` gets its exit
/// status, 1 where an arm's step differs from a plain step that repeats itself.
void add_bench_command(CLI::App& app, int& status);

}  // namespace gradrecomp::program
