#pragma once

#include <vector>

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// A short vector of coefficients as float32: where it lies if it is stored so, else a copy.
class Parameters {
 public:
  /// `stored` null: `absent`, `size` times.
  Parameters(const void* stored, Dtype dtype, std::int64_t size, float absent);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  [[nodiscard]] const float* data() const { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_;
};

}  // namespace gradrecomp::kernels
