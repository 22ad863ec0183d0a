#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// What is kept of the values that cross a cut: bit i for the i-th large one, while tiny ones go
/// with both. Where more large ones cross than have a bit, all are kept or none. A single one may
/// also be dropped and relayed: replays that run through make it and leave it to its own demand.
enum class CutFate : std::uint8_t {
  dropped = 0,
  first_kept = 1,
  second_kept = 2,
  kept = 3,
  relayed = 4
};
inline constexpr std::array kCutFates{CutFate::dropped, CutFate::first_kept, CutFate::second_kept,
                                      CutFate::kept, CutFate::relayed};

/// One for each fate of a cut, at its position.
template <typename T>
using PerFate = std::array<T, kCutFates.size()>;
constexpr std::size_t position(CutFate fate) { return static_cast<std::size_t>(fate); }

/// The fates of a cut that these values cross, which may be dropped; so many of them are large.
/// Without `relayed`.
std::span<const CutFate> fates_of(std::span<const Index> crossing, std::size_t num_large);

/// Whether the value at `i` of those that cross, large ones first, is kept.
bool is_kept(std::size_t i, CutFate fate);

}  // namespace gradrecomp::plan
