#pragma once

#include <cstdint>
#include <string>

#include "fuzz/world/dice.h"
#include "gradrecomp/options.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::fuzzing {

/// A budget or policy for steps whose plain peak is `plain_peak_bytes`, and how they are watched.
Options random_options(Dice& dice, std::int64_t plain_peak_bytes);

/// Gives `options` a random budget for steps whose plain peak is `plain_peak_bytes`.
void draw_budget(Dice& dice, std::int64_t plain_peak_bytes, Options& options);

/// Any kept set, and sweeps for any of the values that can be demanded.
plan::Plan random_plan(Dice& dice, const plan::Graph& graph);

/// The same for Forms::lossy_bf16: it rounds some of what it keeps, and keeps what must stay exact.
plan::Plan random_rounding_plan(Dice& dice, const plan::Graph& graph);

/// What a region under `options` is called.
std::string described(const Options& options);

}  // namespace gradrecomp::fuzzing
