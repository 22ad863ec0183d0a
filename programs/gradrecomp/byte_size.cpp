#include "byte_size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "bad_input.h"

namespace gradrecomp::program {
namespace {

constexpr double kMostBytes = 0x1p62;

std::optional<double> unit_bytes(std::string_view suffix) {
  constexpr std::array<std::string_view, 5> kSuffixes{"B", "KiB", "MiB", "GiB", "TiB"};
  double bytes = 1;
  for (const auto& known : kSuffixes) {
    if (suffix == known) return bytes;
    bytes *= 1024;
  }
  return suffix.empty() ? std::optional(1.0) : std::nullopt;
}

}  // namespace

std::int64_t byte_size(std::string_view name, std::string_view text) {
  double amount = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
  if (error == std::errc{}) {
    const auto unit = unit_bytes({stop, static_cast<std::size_t>(end - stop)});
    const double bytes = unit ? std::floor(amount * *unit) : 0;
    if (bytes >= 1 && bytes <= kMostBytes) return static_cast<std::int64_t>(bytes);
  }
  reject(name, "value", text,
         "a positive number of bytes, with B, KiB, MiB, GiB, TiB or no unit. Pass for example "
         "512MiB.");
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20);
}

}  // namespace gradrecomp::program
