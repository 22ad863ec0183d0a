#include "measure/spread.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradrecomp::program {

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back()};
}

std::string to_string(const Spread& spread) {
  return fmt::format("{:.3f} ({:.3f}..{:.3f})", spread.median, spread.low, spread.high);
}

}  // namespace gradrecomp::program
