#include "tape/host_memory/pinned_storage.h"

#include <ATen/ATen.h>

#include "tape/aten/below_recording.h"

namespace gradrecomp::tape {

c10::Storage pinned_storage(std::size_t num_bytes) {
  const BelowRecording below;
  const auto bytes = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
  return at::empty({static_cast<std::int64_t>(num_bytes)}, bytes).storage();
}

}  // namespace gradrecomp::tape
