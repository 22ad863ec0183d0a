#pragma once

#include <cstdint>
#include <string>

#include "gradrecomp/plan/plan.h"

namespace gradrecomp::program {

/// The peak that no plan undercuts at the overhead of `plan`, as a share of plain; "" if unproven.
std::string proven_peak(const plan::Plan& plan, std::int64_t plain_peak_bytes);

/// The overhead that no plan undercuts at the peak of `plan`, in its cost; "" if unproven.
std::string proven_overhead(const plan::Plan& plan);

}  // namespace gradrecomp::program
