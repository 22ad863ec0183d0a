#pragma once

#include "gradrecomp/options.h"

namespace gradrecomp::test {

/// What regions of these tests are asked for where it does not matter.
inline const Options kBudget{.max_overhead = 0.3, .cost = plan::CostModel::flops};

}  // namespace gradrecomp::test
