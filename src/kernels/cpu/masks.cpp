#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "gradrecomp/kernels/check.h"
#include "kernels/arithmetic/words.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"

namespace gradrecomp::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bools are read as one integer");
static_assert(kTile % 8 == 0, "a tile begins at a whole byte of bits");

// The product gathers bit 0 of each byte in the top byte, first byte lowest.
std::uint8_t pack_eight(const std::uint8_t* mask) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, mask, sizeof(bytes));
  return static_cast<std::uint8_t>((bytes * 0x0102040810204080U) >> 56);
}

// Copies the bits to all bytes, leaves byte i only bit i, and makes a 1 of what is not 0.
void unpack_eight(std::uint8_t bits, std::uint8_t* mask) {
  std::uint64_t bytes = (bits * 0x0101010101010101U) & 0x8040201008040201U;
  bytes = ((bytes + 0x7F7F7F7F7F7F7F7FU) >> 7) & 0x0101010101010101U;
  std::memcpy(mask, &bytes, sizeof(bytes));
}

void pack_bytes(const std::uint8_t* mask, std::uint8_t* bits, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + 8 <= size; i += 8) bits[i / 8] = pack_eight(mask + i);
  if (i == size) return;
  std::uint8_t rest[8] = {};
  std::memcpy(rest, mask + i, static_cast<std::size_t>(size - i));
  bits[i / 8] = pack_eight(rest);
}

void unpack_bytes(const std::uint8_t* bits, std::uint8_t* mask, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + 8 <= size; i += 8) unpack_eight(bits[i / 8], mask + i);
  if (i == size) return;
  std::uint8_t rest[8];
  unpack_eight(bits[i / 8], rest);
  std::memcpy(mask + i, rest, static_cast<std::size_t>(size - i));
}

using TileOfBytes = std::array<std::uint8_t, kTile>;

template <class Word>
void pack_words(const PackMask& args) {
  const auto* mask = static_cast<const Word*>(args.mask);
  auto* bits = static_cast<std::uint8_t*>(args.bits);
  for_each_tile(args.num_elements, [&](std::int64_t first, std::int64_t size) {
    const Word* words = mask + first;
    TileOfBytes bytes;
    for (std::int64_t i = 0; i < size; ++i) bytes[i] = words[i] != 0 ? 1 : 0;
    pack_bytes(bytes.data(), bits + first / 8, size);
  });
}

template <class Word>
void unpack_words(const UnpackMask& args) {
  const auto* bits = static_cast<const std::uint8_t*>(args.bits);
  auto* mask = static_cast<Word*>(args.mask);
  const auto one = static_cast<Word>(args.one);
  for_each_tile(args.num_elements, [&](std::int64_t first, std::int64_t size) {
    Word* words = mask + first;
    TileOfBytes bytes;
    unpack_bytes(bits + first / 8, bytes.data(), size);
    for (std::int64_t i = 0; i < size; ++i) words[i] = bytes[i] != 0 ? one : Word{0};
  });
}

}  // namespace

void pack_mask(const PackMask& args, Stream /*stream*/) {
  check(args);
  with_word(args.element_bytes, [&](auto word) { pack_words<decltype(word)>(args); });
}

void unpack_mask(const UnpackMask& args, Stream /*stream*/) {
  check(args);
  with_word(args.element_bytes, [&](auto word) { unpack_words<decltype(word)>(args); });
}

}  // namespace gradrecomp::kernels::cpu
