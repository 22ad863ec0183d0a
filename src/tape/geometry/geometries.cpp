#include "tape/geometry/geometries.h"

namespace gradrecomp::tape {

// What an op reads, autograd mostly saves right after it.
const Geometry* Geometries::of(const at::Tensor& tensor) {
  const Geometry geometry(tensor);
  if (last_ == nullptr || *last_ != geometry) last_ = &*kept_.insert(geometry).first;
  return last_;
}

}  // namespace gradrecomp::tape
