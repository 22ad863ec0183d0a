#pragma once

#include <filesystem>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// What an output is written to.
struct FileTarget {
  std::filesystem::path path;  ///< symbolic links resolved; need not exist
  int descriptor = -1;         ///< of this process, as /dev/stdout is; -1: none
  bool in_place = false;       ///< a pipe, a device or a descriptor, written to directly
};

/// Follows `path` to what it means.
FileTarget file_target(const std::filesystem::path& path);

}  // namespace gradrecomp::plan
