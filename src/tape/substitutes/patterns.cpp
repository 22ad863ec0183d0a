#include "tape/substitutes/patterns.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "tape/aten/below_recording.h"

namespace gradrecomp::tape {
namespace {

/// The first whole number that `type` does not hold, if `own` does: so far from it, a sum still
/// shows whether the number was rounded before.
std::int64_t whole_number(c10::ScalarType own, c10::ScalarType type) {
  constexpr std::int64_t kSmall = 257;
  const auto beyond = [](int digits) { return (std::int64_t{1} << digits) + 1; };
  const bool is_wide = own == at::kLong || own == at::kInt;
  if (c10::elementSize(own) == 1) return 1;
  if (type == at::kHalf) return beyond(std::numeric_limits<c10::Half>::digits);
  if (type == at::kFloat && is_wide) return beyond(std::numeric_limits<float>::digits);
  if (type == at::kDouble && own == at::kLong) return beyond(std::numeric_limits<double>::digits);
  return kSmall;  // for bfloat16
}

}  // namespace

at::Tensor pattern(std::int64_t count, at::TensorOptions options, std::int64_t first) {
  const BelowRecording below;
  const auto numbers =
      at::arange(count, options.dtype(at::kFloat)).add_(first).mul_(kPatternNumber);
  const std::int64_t piece = numbers.is_cpu() ? kOnOneThread : count;
  for (std::int64_t i = 0; i < count; i += piece) {
    numbers.narrow(0, i, std::min(piece, count - i)).sin_();
  }
  numbers.neg_();
  if (options.dtype() == at::kBool) return numbers.gt(0);
  return numbers.to(options.dtype());
}

// Filled piece by piece: a large one takes little beside itself.
at::Tensor pattern_like(const at::Tensor& like, int phase) {
  constexpr std::int64_t kPiece = 1 << 20;
  const BelowRecording below;
  auto made = at::empty_strided(like.sizes(), like.strides(), like.options());
  const auto size = static_cast<std::int64_t>(made.storage().nbytes() / made.itemsize());
  const auto whole = made.as_strided({size}, {1}, 0);
  for (std::int64_t first = 0; first < size; first += kPiece) {
    const std::int64_t count = std::min(kPiece, size - first);
    whole.narrow(0, first, count)
        .copy_(pattern(count, like.options(), phase * kPatternSize + first));
  }
  return made;
}

at::Tensor pattern_number(const Geometry& geometry, c10::ScalarType beside, double number) {
  const BelowRecording below;
  const at::Tensor filled = at::empty({}, geometry.scalar_type());
  if (c10::isFloatingType(geometry.scalar_type())) {
    filled.fill_(number);
  } else {
    filled.fill_(whole_number(geometry.scalar_type(), beside));
  }
  at::Tensor shown = geometry.over(filled.storage());
  shown.unsafeGetTensorImpl()->set_storage_offset(0);  // it may be one of many in a table
  return shown;
}

}  // namespace gradrecomp::tape
