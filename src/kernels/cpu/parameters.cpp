#include "kernels/cpu/parameters.h"

#include "kernels/cpu/vector_loops.h"

namespace gradrecomp::kernels {

Parameters::Parameters(const void* stored, Dtype dtype, std::int64_t size, float absent)
    : data_(static_cast<const float*>(stored)) {
  if (stored != nullptr && dtype == Dtype::float32) return;
  copy_.assign(static_cast<std::size_t>(size), absent);
  if (stored != nullptr) {
    vector_loops().load(dtype, static_cast<const std::uint16_t*>(stored), copy_.data(), size);
  }
  data_ = copy_.data();
}

}  // namespace gradrecomp::kernels
