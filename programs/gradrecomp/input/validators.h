#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/plan/policy.h"

namespace gradrecomp::program {

/// The finite number of at least 0 that `text` is, if it is one.
std::optional<double> read_nonnegative(std::string_view text);

/// The whole number that `text` is in decimal digits, if it is one; none begins with 0 but that.
std::optional<std::int64_t> read_whole_number(std::string_view text);

/// What stands between the commas of each list, even if that is nothing.
std::vector<std::string> names_in(const std::vector<std::string>& lists);

/// The fixed policy that `text` names, if it does.
std::optional<plan::Policy> read_policy(const std::string& text);

// For CLI::Option::transform(). What they refuse is said as `--batch is 0, but must be ...`

/// Takes what `check` takes and makes the same of it.
CLI::Validator must_be(const std::string& requirement, const CLI::Validator& check);
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
CLI::Validator nonnegative(std::optional<double> most = std::nullopt);
CLI::Validator positive();
/// A positive number of bytes, with a unit such as MiB or none, to bytes.
CLI::Validator byte_size();
CLI::Validator one_of(const std::vector<std::string>& names);
CLI::Validator file_name();
CLI::Validator fixed_policy();

}  // namespace gradrecomp::program
