#pragma once

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/kernels/rounding.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// y = x normalised row by row by kept statistics.
///
/// Shapes:     x and y [num_rows, num_columns], dense; mean and rstd [num_rows]; gamma and beta
///             [num_columns].
/// Memory:     y may be x, but must not overlap anything else.
/// Guarantees: the same bits for any number of threads.
struct LayerNorm {
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  Dtype dtype = Dtype::float32;             ///< of x and y
  Dtype parameter_dtype = Dtype::float32;   ///< of gamma and beta: float32 or `dtype`
  Dtype statistics_dtype = Dtype::float32;  ///< of mean and rstd: float32 or `dtype`
  const void* x = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  const void* gamma = nullptr;  ///< null: 1
  const void* beta = nullptr;   ///< null: 0
  void* y = nullptr;
  Rounding rounding = Rounding::centred_fused;
};

}  // namespace gradrecomp::kernels
