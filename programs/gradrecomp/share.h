#pragma once

#include <cstdint>
#include <string>

namespace gradrecomp::program {

/// part / whole, and 1 where there is no whole.
double share(std::int64_t part, std::int64_t whole);

/// 0.0512 as "5.1%".
std::string percent(double ratio);

/// What `predicted` is above `measured` as "+0.52%", and "exact" where they are equal.
std::string difference(std::int64_t measured, std::int64_t predicted);

}  // namespace gradrecomp::program
