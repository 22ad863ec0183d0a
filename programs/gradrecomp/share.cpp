#include "share.h"

#include <fmt/format.h>

namespace gradrecomp::program {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

std::string percent(double ratio) { return fmt::format("{:.1f}%", 100 * ratio); }

}  // namespace gradrecomp::program
