#include "tape/kernels/device_kernels.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace gradrecomp::tape {

const kernels::Table& kernels_of(const at::Tensor& tensor) {
  const kernels::Table* table = kernels::table(tensor.device().type());
  TORCH_CHECK(table != nullptr, "GradRecomp: ", tensor.device(),
              " has no kernels, but must have some. ", "GradRecomp bug, please report.");
  return *table;
}

kernels::Stream current_stream(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl impl(tensor.device().type());
  return impl.getStream(tensor.device()).native_handle();
}

}  // namespace gradrecomp::tape
