#pragma once

#include <cstddef>

#include "gradrecomp/version.h"

namespace gradrecomp::arena {

/// Blocks begin at multiples of it, and their bytes are rounded up to one. LibTorch's own.
constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace gradrecomp::arena
