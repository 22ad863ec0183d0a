#include "tape/geometry/geometries.h"

namespace gradrecomp::tape {

// What an op reads, autograd mostly saves right after it.
const Geometry* Geometries::of(const at::Tensor& tensor) {
  if (last_ == nullptr || !last_->is_of(tensor)) last_ = &*kept_.insert(Geometry(tensor)).first;
  return last_;
}

}  // namespace gradrecomp::tape
