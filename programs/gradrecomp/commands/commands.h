#pragma once

#include <CLI/CLI.hpp>

namespace gradrecomp::program {

// Each adds one subcommand, whose exit status `status` gets.

/// `gradrecomp batch` finds the batch size and plan that make most of a memory budget, and confirms
/// them by real steps; status 1 where a step differs from the plain one.
void add_batch_command(CLI::App& app, int& status);

/// `gradrecomp bench` measures a model under several plans; status 1 where an arm's step differs
/// from a plain step that repeats itself.
void add_bench_command(CLI::App& app, int& status);

/// `gradrecomp plan` profiles one step of a model, plans for a budget and compares.
void add_plan_command(CLI::App& app, int& status);

/// `gradrecomp train` trains a model twice from one seed, plain and planned; status 1 where losses
/// or final parameters differ.
void add_train_command(CLI::App& app, int& status);

/// `gradrecomp verify` checks a plan file against its step; status 1 where a figure does not hold.
void add_verify_command(CLI::App& app, int& status);

}  // namespace gradrecomp::program
