#include "fuzz/world/raw_write.h"

#include <algorithm>
#include <cstring>

namespace gradrecomp::fuzzing {

void raw_write(Dice& dice, const torch::Tensor& tensor) {
  if (tensor.numel() == 0 || tensor.scalar_type() != torch::kFloat) return;
  auto* const items = tensor.data_ptr<float>();
  // What a tensor with gaps covers is no more than its number of items, if it is not expanded.
  const std::int64_t count = tensor.is_non_overlapping_and_dense() ? tensor.numel() : 1;
  const std::int64_t first = dice.below(count);
  switch (dice.below(4)) {
    case 0:
      items[first] = 0.25F;
      return;
    case 1:
      std::memset(items + first, 0, static_cast<std::size_t>(count - first) * sizeof(float));
      return;
    case 2:
      for (std::int64_t i = 0; i < count; ++i) items[i] = 0.1F * static_cast<float>(i % 7);
      return;
    default:
      for (std::int64_t i = first; i < count; i += 3) items[i] *= -0.5F;
      return;
  }
}

}  // namespace gradrecomp::fuzzing
