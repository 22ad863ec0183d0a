#pragma once

#include <string_view>

#include "gradrecomp/plan/plan.h"

namespace gradrecomp::program {

/// "seconds" or "flops".
std::string_view to_string(plan::CostModel cost);

/// The overhead of `plan` that a budget in `cost` speaks of.
double predicted_overhead(const plan::Plan& plan, plan::CostModel cost);

}  // namespace gradrecomp::program
