#pragma once

#include <cstdint>
#include <span>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Bytes that are hashed together, by so many lanes. The last block of a memory may be shorter.
inline constexpr std::int64_t kHashBlockBytes = std::int64_t{64} << 10;
inline constexpr std::int64_t kHashLanes = 32;

/// How many blocks `num_bytes` have.
constexpr std::int64_t num_hash_blocks(std::int64_t num_bytes) {
  return (num_bytes + kHashBlockBytes - 1) / kHashBlockBytes;
}

/// Memory and the hashes of its blocks.
///
/// Shapes: bytes [num_bytes]; hashes [num_hash_blocks(num_bytes), kHashLanes], in memory that both
///         the device and the host may use, aligned to 8 bytes.
struct HashedMemory {
  const void* bytes = nullptr;
  std::int64_t num_bytes = 0;
  std::uint64_t* hashes = nullptr;
};

/// Each lane hashes one word of 8 bytes in every kHashLanes, so that any word that changes changes
/// a hash, and several that change leave it as it was once in 2^64 times. What lacks in the last
/// word counts as 0. Hashes are the same on all kinds of devices.
struct HashMemory {
  std::span<const HashedMemory> parts;  ///< read before the call returns
};

}  // namespace gradrecomp::kernels
