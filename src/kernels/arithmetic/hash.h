#pragma once

#include <cstdint>

#include "gradrecomp/kernels/hash.h"
#include "gradrecomp/version.h"
#include "kernels/arithmetic/normalise.h"

namespace gradrecomp::kernels {

inline constexpr std::int64_t kHashWordBytes = sizeof(std::uint64_t);

/// Every step is a bijection of each argument.
GRADRECOMP_INLINE std::uint64_t hash_step(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

/// The word of `num_bytes` bytes, at most 8, from `bytes` on, at any address.
GRADRECOMP_INLINE std::uint64_t hash_word(const unsigned char* bytes, std::int64_t num_bytes) {
  std::uint64_t word = 0;
  for (std::int64_t i = 0; i < num_bytes && i < kHashWordBytes; ++i) {
    word |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return word;
}

/// What a lane makes of a block of `memory`. `aligned`: words of it can be loaded at once.
GRADRECOMP_INLINE std::uint64_t hash_of_lane(const HashedMemory& memory, std::int64_t block,
                                             std::int64_t lane, bool aligned) {
  const auto* bytes = static_cast<const unsigned char*>(memory.bytes);
  const std::int64_t block_end = (block + 1) * kHashBlockBytes;
  const std::int64_t end = block_end < memory.num_bytes ? block_end : memory.num_bytes;
  std::uint64_t hash = static_cast<std::uint64_t>(lane) + 1;
  std::int64_t position = block * kHashBlockBytes + lane * kHashWordBytes;
  for (; position < end; position += kHashLanes * kHashWordBytes) {
    const bool at_once = aligned && position + kHashWordBytes <= end;
    const std::uint64_t word = at_once ? *reinterpret_cast<const std::uint64_t*>(bytes + position)
                                       : hash_word(bytes + position, end - position);
    hash = hash_step(hash, word);
  }
  return hash;
}

}  // namespace gradrecomp::kernels
