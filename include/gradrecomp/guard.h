#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// How much of the memory that replays read, and others may write, is compared with what it was.
enum class Guard : std::uint8_t {
  off,      ///< none of it
  sampled,  ///< some of each column and each row, if rows are not narrow; small values, and
            ///< devices' memory, whole
  whole,    ///< all of it
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
