#pragma once

#include <string>
#include <vector>

namespace gradrecomp::program {

/// The middle and the ends of what was measured.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// All 0 where `samples` is empty.
Spread spread_of(std::vector<double> samples);

/// "1.043 (1.031..1.060)"
std::string to_string(const Spread& spread);

}  // namespace gradrecomp::program
