#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Calls work(Word()) with the unsigned integer of 1, 2, 4 or 8 bytes, and returns what it does.
template <class Work>
auto with_word(std::int64_t bytes, const Work& work) {
  switch (bytes) {
    case 1:
      return work(std::uint8_t());
    case 2:
      return work(std::uint16_t());
    case 4:
      return work(std::uint32_t());
    default:
      return work(std::uint64_t());
  }
}

}  // namespace gradrecomp::kernels
