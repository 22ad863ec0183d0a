#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace gradrecomp::program {

struct Range {
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// The whole number inside `range` that `text` is, if it is one.
std::optional<std::int64_t> read_whole_number(std::string_view text, Range range = {});

/// Reads the value of option `name`, a whole number inside `range`.
/// Throws:  BadInput for any other text.
std::int64_t whole_number(std::string_view name, std::string_view text, Range range = {});

/// Reads the value of option `name`, a finite ratio of at least 0.
/// Throws:  BadInput for any other text.
double ratio(std::string_view name, std::string_view text);

/// Reads the value of option `name`, a finite number of at least 0.
/// Throws:  BadInput for any other text.
double nonnegative_number(std::string_view name, std::string_view text);

/// Reads the value of option `name`, a finite number above 0.
/// Throws:  BadInput for any other text.
double positive_number(std::string_view name, std::string_view text);

}  // namespace gradrecomp::program
