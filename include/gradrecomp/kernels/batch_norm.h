#pragma once

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/kernels/rounding.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// y = x normalised by kept statistics, then + residual, then ReLU, in one pass over memory.
///
/// Between the three y is rounded to `dtype`, as separate operators would. Only the sign and the
/// payload of a NaN are unspecified.
/// Shapes:     x, y and residual [num_images, num_channels, inner], dense, in `layout`;
///             mean, invstd, gamma and beta [num_channels].
/// Memory:     y may be x, but must not overlap anything else.
/// Guarantees: the same bits for any number of threads.
struct BatchNorm {
  std::int64_t num_images = 0;
  std::int64_t num_channels = 0;
  std::int64_t inner = 1;  ///< elements of one channel of one image: height * width
  Layout layout = Layout::channels_first;
  Dtype dtype = Dtype::float32;             ///< of x, y and residual
  Dtype parameter_dtype = Dtype::float32;   ///< of gamma and beta: float32 or `dtype`
  Dtype statistics_dtype = Dtype::float32;  ///< of mean and invstd: float32 or `dtype`
  const void* x = nullptr;
  const void* mean = nullptr;
  const void* invstd = nullptr;
  const void* gamma = nullptr;     ///< null: 1
  const void* beta = nullptr;      ///< null: 0
  const void* residual = nullptr;  ///< null: none
  void* y = nullptr;
  bool relu = false;
  Rounding rounding = Rounding::affine_fused;
};

}  // namespace gradrecomp::kernels
