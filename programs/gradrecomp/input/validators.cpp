#include "input/validators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace gradrecomp::program {

namespace {

/// The number that all of `text` is, if it is one.
template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<double> read_nonnegative(std::string_view text) {
  const auto number = read_number<double>(text);
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

std::optional<std::int64_t> read_whole_number(std::string_view text) {
  const bool is_padded = text.size() > 1 && text.starts_with('0');
  return is_padded ? std::nullopt : read_number<std::int64_t>(text);
}

// An option with a delimiter of CLI11's passes over names that are empty.
std::vector<std::string> names_in(const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const std::string& list : lists) {
    std::size_t begin = 0;
    for (auto comma = list.find(','); comma != std::string::npos; comma = list.find(',', begin)) {
      names.push_back(list.substr(begin, comma - begin));
      begin = comma + 1;
    }
    names.push_back(list.substr(begin));
  }
  return names;
}

std::optional<plan::Policy> read_policy(const std::string& text) try {
  return plan::Policy(text);
} catch (const std::invalid_argument&) {
  return std::nullopt;
}

CLI::Validator must_be(const std::string& requirement, const CLI::Validator& check) {
  const auto apply = [requirement, check](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (check(text).empty()) return {};
    } catch (const CLI::ValidationError&) {  // as AsSizeValue throws
    }
    return fmt::format("is {}, but must be {}.", given.empty() ? "empty" : given, requirement);
  };
  return {apply, ""};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  // Range takes 010, and CLI11 reads it as 8.
  const auto check = [least, most](std::string& text) {
    const auto number = read_whole_number(text);
    return number && *number >= least && *number <= most ? "" : "out of range";
  };
  return must_be(fmt::format("a whole number from {} to {}", least, most), {check, ""});
}

CLI::Validator nonnegative(std::optional<double> most) {
  // Range takes what is not a number.
  const auto check = [most](std::string& text) {
    const auto number = read_nonnegative(text);
    return number && *number <= most.value_or(*number) ? "" : "out of range";
  };
  const auto limit = most ? fmt::format(" and at most {}", *most) : "";
  return must_be(fmt::format("a finite number of at least 0{}, such as 0.05", limit), {check, ""});
}

CLI::Validator positive() {
  return must_be("a finite number above 0, such as 10", nonnegative() & CLI::PositiveNumber);
}

CLI::Validator byte_size() {
  constexpr double kMostBytes = 0x1p53;  // up to here doubles count them
  // AsSizeValue knows the units, but no fractions of them.
  const auto to_bytes = [](std::string& text) -> std::string {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [unit, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    std::string one = "1" + std::string(unit, end);
    if (error != std::errc{}) return "no number";
    if (const auto fault = CLI::AsSizeValue(/*kb_is_1000=*/true)(one); !fault.empty()) return fault;
    const double bytes = std::floor(number * std::stod(one));
    if (!(bytes >= 1 && bytes <= kMostBytes)) return "out of range";
    text = std::to_string(static_cast<std::int64_t>(bytes));
    return {};
  };
  return must_be(
      "a positive number of bytes up to 8PiB, with a unit or none, such as 512MiB or 1.5GiB",
      CLI::Validator(to_bytes, ""));
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return must_be(fmt::format("one of {}", fmt::join(names, ", ")), CLI::IsMember(names));
}

CLI::Validator file_name() {
  const auto check = [](std::string& text) { return text.empty() ? "empty" : ""; };
  return must_be("the name of a file", {check, ""});
}

CLI::Validator fixed_policy() {
  const auto check = [](std::string& text) { return read_policy(text) ? "" : "unknown"; };
  return must_be("a fixed policy: " + plan::Policy::spellings(), {check, ""});
}

}  // namespace gradrecomp::program
