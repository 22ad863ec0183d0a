#include "number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "bad_input.h"

namespace gradrecomp::program {
namespace {

template <typename Number>
std::optional<Number> read(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> read_whole_number(std::string_view text, Range range) {
  const auto number = read<std::int64_t>(text);
  return number && *number >= range.least && *number <= range.most ? number : std::nullopt;
}

std::int64_t whole_number(std::string_view name, std::string_view text, Range range) {
  if (const auto number = read_whole_number(text, range)) return *number;
  const bool bounded = range.most != std::numeric_limits<std::int64_t>::max();
  const auto bounds = bounded ? fmt::format("from {} to {}", range.least, range.most)
                              : fmt::format("of at least {}", range.least);
  reject(name, "value", text,
         fmt::format("a whole number {}. Pass for example {} {}.", bounds, name,
                     std::max<std::int64_t>(range.least, 1)));
}

double ratio(std::string_view name, std::string_view text) {
  const auto number = read<double>(text);
  if (number && std::isfinite(*number) && *number >= 0) return *number;
  reject(name, "value", text, "a finite ratio of at least 0. Pass 0.05 for 5% of a step.");
}

double nonnegative_number(std::string_view name, std::string_view text) {
  const auto number = read<double>(text);
  if (number && std::isfinite(*number) && *number >= 0) return *number;
  reject(name, "value", text,
         fmt::format("a finite number of at least 0. Pass for example {} 0.01.", name));
}

double positive_number(std::string_view name, std::string_view text) {
  const auto number = read<double>(text);
  if (number && std::isfinite(*number) && *number > 0) return *number;
  reject(name, "value", text,
         fmt::format("a finite number above 0. Pass for example {} 10.", name));
}

}  // namespace gradrecomp::program
