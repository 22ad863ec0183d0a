#include "share.h"

#include <fmt/format.h>

namespace gradrecomp::program {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

std::string percent(double ratio) { return fmt::format("{:.1f}%", 100 * ratio); }

std::string difference(std::int64_t measured, std::int64_t predicted) {
  if (measured == predicted) return "exact";
  return fmt::format("{:+.2f}%", 100 * (share(predicted, measured) - 1));
}

}  // namespace gradrecomp::program
