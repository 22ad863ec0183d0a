#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gradrecomp::plan {

/// The bytes of a file. Errors name `function`.
/// Throws:  std::invalid_argument if it cannot be read.
std::string read_file(std::string_view function, const std::filesystem::path& path);

/// Puts `text` in the place of a file: written beside it, then renamed, so that a write that fails
/// leaves the old one whole. What is no regular file, such as a pipe, is written to directly.
/// Throws:  std::invalid_argument if it cannot be written.
void replace_file(std::string_view function, const std::filesystem::path& path,
                  std::string_view text);

}  // namespace gradrecomp::plan
