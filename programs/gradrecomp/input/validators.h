#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradrecomp::program {

struct Range {
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// The whole number inside `range` that `text` is, if it is one.
std::optional<std::int64_t> read_whole_number(std::string_view text, Range range = {});
/// The finite number of at least 0 that `text` is, if it is one.
std::optional<double> read_nonnegative(std::string_view text);

// For CLI::Option::transform(). What they refuse is said as
// `--batch: value is 0, but must be <requirement>. <What to do>.`

CLI::Validator whole_number(Range range = {});
/// A finite number of at least 0, and above 0 where that says so.
CLI::Validator nonnegative();
CLI::Validator positive();
/// Overheads: finite and at least 0.
CLI::Validator ratio();
/// A positive number of bytes, with B, KiB, MiB, GiB, TiB or no unit, to bytes.
CLI::Validator byte_size();
CLI::Validator one_of(std::vector<std::string> names);

}  // namespace gradrecomp::program
