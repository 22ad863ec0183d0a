#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// The bytes of a file, which may be a pipe. Errors name `function`.
/// Throws:  std::invalid_argument if it cannot be read, or does not end within `most_bytes`.
std::string read_file(std::string_view function, const std::filesystem::path& path,
                      std::int64_t most_bytes = std::int64_t{1} << 30);

}  // namespace gradrecomp::plan
