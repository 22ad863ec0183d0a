#include "cut_fate.h"

#include "plan/graph/blocks.h"

namespace gradrecomp::plan {

std::span<const CutFate> fates_of(std::span<const Index> crossing, std::size_t num_large) {
  static constexpr std::array kWhole{CutFate::dropped, CutFate::kept};
  static_assert(kCutFates.back() == CutFate::relayed);
  if (num_large == kMostApart) return std::span(kCutFates).first(kCutFates.size() - 1);
  return crossing.empty() ? std::span(kWhole).last(1) : std::span(kWhole);
}

bool is_kept(std::size_t i, CutFate fate) {
  const bool has_bit = i < kMostApart && (position(fate) >> i) % 2 == 1;
  return fate == CutFate::kept || has_bit;
}

}  // namespace gradrecomp::plan
