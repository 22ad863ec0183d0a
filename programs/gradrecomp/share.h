#pragma once

#include <cstdint>
#include <string>

namespace gradrecomp::program {

/// part / whole, and 1 where there is no whole.
double share(std::int64_t part, std::int64_t whole);

/// 0.0512 as "5.1%".
std::string percent(double ratio);

}  // namespace gradrecomp::program
