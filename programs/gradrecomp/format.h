#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gradrecomp/plan/plan.h"

namespace gradrecomp::program {

/// Bytes as "691.5 MiB".
std::string mebibytes(std::int64_t bytes);

/// part / whole, and 1 where there is no whole.
double share(std::int64_t part, std::int64_t whole);

/// 0.0512 as "5.1%".
std::string percent(double ratio);

/// How far `predicted` is above `measured` as "+0.52%", and "exact" where they are equal.
std::string difference(std::int64_t measured, std::int64_t predicted);

/// "seconds" or "flops".
std::string_view to_string(plan::CostModel cost);

/// The peak of `plan` as a share of the plain step's.
double predicted_share(const plan::Plan& plan);

/// The peak that no plan undercuts at the overhead of `plan`, as a share of plain; "" if unproven.
std::string proven_peak(const plan::Plan& plan, std::int64_t plain_peak_bytes);

/// The overhead that no plan undercuts at the peak of `plan`, in its cost; "" if unproven.
std::string proven_overhead(const plan::Plan& plan);

}  // namespace gradrecomp::program
