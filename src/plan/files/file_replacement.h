#pragma once

#include <filesystem>
#include <string_view>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// Puts `text` in the place of a file: written beside it, then renamed, so that a write that fails
/// leaves the old one whole. The new one has the old one's permissions. A symbolic link stays: what
/// it points to is replaced. What is not a regular file, such as a pipe, is written to directly.
/// Throws:  std::invalid_argument if check_replaceable() does; std::runtime_error if the disk, or
///          the reader of the pipe, does not take all of it.
void replace_file(std::string_view function, const std::filesystem::path& path,
                  std::string_view text);

/// Checks that replace_file() can begin, without opening anything.
/// Throws:  std::invalid_argument if not.
void check_replaceable(std::string_view function, const std::filesystem::path& path);

/// Whether writing to both would leave one file with the text of the second.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace gradrecomp::plan
