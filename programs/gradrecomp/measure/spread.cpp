#include "measure/spread.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradrecomp::program {

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const auto num = samples.size();
  const double median = (samples[(num - 1) / 2] + samples[num / 2]) / 2;
  return {median, samples.front(), samples.back()};
}

std::string to_string(const Spread& spread) {
  return fmt::format("{:.3f} ({:.3f}..{:.3f})", spread.median, spread.low, spread.high);
}

}  // namespace gradrecomp::program
