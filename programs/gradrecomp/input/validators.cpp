#include "input/validators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

namespace gradrecomp::program {
namespace {

using Transform = std::function<std::optional<std::string>(const std::string&)>;

/// Replaces a value by what `transform` makes of it, and refuses it where that is nothing.
CLI::Validator validator(Transform transform, std::string requirement) {
  const auto apply = [transform = std::move(transform),
                      requirement = std::move(requirement)](std::string& text) -> std::string {
    auto made = transform(text);
    if (!made) return fmt::format("value is {}, but must be {}", text, requirement);
    text = *std::move(made);
    return {};
  };
  // Of an option that is given several times, the last value alone counts.
  return CLI::Validator(apply, "").application_index(0);
}

Transform if_it_is(std::function<bool(double)> holds) {
  return [holds = std::move(holds)](const std::string& text) -> std::optional<std::string> {
    const auto number = read_nonnegative(text);
    return number && holds(*number) ? std::optional(text) : std::nullopt;
  };
}

std::optional<double> unit_bytes(std::string_view suffix) {
  constexpr std::array<std::string_view, 5> kSuffixes{"B", "KiB", "MiB", "GiB", "TiB"};
  const auto* known = std::ranges::find(kSuffixes, suffix);
  if (known == kSuffixes.end()) return suffix.empty() ? std::optional(1.0) : std::nullopt;
  return std::pow(1024, known - kSuffixes.begin());
}

std::optional<std::string> bytes_of(const std::string& text) {
  constexpr double kMostBytes = 0x1p62;
  double amount = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
  const auto unit = unit_bytes({stop, end});
  if (error != std::errc{} || !unit) return std::nullopt;
  const double bytes = std::floor(amount * *unit);
  if (!(bytes >= 1 && bytes <= kMostBytes)) return std::nullopt;
  return std::to_string(static_cast<std::int64_t>(bytes));
}

/// All of `text` as a number, if it is one.
template <typename Number>
std::optional<Number> read(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> read_whole_number(std::string_view text, Range range) {
  const auto number = read<std::int64_t>(text);
  return number && *number >= range.least && *number <= range.most ? number : std::nullopt;
}

std::optional<double> read_nonnegative(std::string_view text) {
  const auto number = read<double>(text);
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

CLI::Validator whole_number(Range range) {
  const auto transform = [range](const std::string& text) -> std::optional<std::string> {
    const auto number = read_whole_number(text, range);
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  };
  const bool is_bounded = range.most != std::numeric_limits<std::int64_t>::max();
  const auto bounds = is_bounded ? fmt::format("from {} to {}", range.least, range.most)
                                 : fmt::format("of at least {}", range.least);
  return validator(transform, fmt::format("a whole number {}. Pass for example {}.", bounds,
                                          std::max<std::int64_t>(range.least, 1)));
}

CLI::Validator nonnegative() {
  return validator(if_it_is([](double) { return true; }),
                   "a finite number of at least 0. Pass for example 0.01.");
}

CLI::Validator positive() {
  return validator(if_it_is([](double number) { return number > 0; }),
                   "a finite number above 0. Pass for example 10.");
}

CLI::Validator ratio() {
  return validator(if_it_is([](double) { return true; }),
                   "a finite ratio of at least 0. Pass 0.05 for 5% of a step.");
}

CLI::Validator byte_size() {
  return validator(bytes_of,
                   "a positive number of bytes, with B, KiB, MiB, GiB, TiB or no unit. Pass for "
                   "example 512MiB.");
}

CLI::Validator one_of(std::vector<std::string> names) {
  const auto requirement = fmt::format("one of {}. Pass one of these.", fmt::join(names, ", "));
  const auto transform = [names = std::move(names)](const std::string& text) {
    return std::ranges::find(names, text) != names.end() ? std::optional(text) : std::nullopt;
  };
  return validator(transform, requirement);
}

}  // namespace gradrecomp::program
