// Says whether the current CUDA stream is being captured into a graph.
#include "gradrecomp/device/capture.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda_runtime_api.h>

#include "gradrecomp/export.h"
#include "profile/cuda/cuda_in_use.h"

namespace gradrecomp::profile::cuda {
namespace {

bool is_capturing() {
  if (!cuda_in_use()) return false;
  const c10::impl::VirtualGuardImpl impl(c10::kCUDA);
  auto* const stream = static_cast<cudaStream_t>(impl.getStream(impl.getDevice()).native_handle());
  auto status = cudaStreamCaptureStatusNone;
  // It fails on the legacy stream while another captures: that one does not.
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status != cudaStreamCaptureStatusNone;
}

bool registered() {
  device::register_capture_query(&is_capturing);
  return true;
}

}  // namespace
}  // namespace gradrecomp::profile::cuda

// Programs ask their linker for this name, or it would leave this file out.
extern "C" GRADRECOMP_API const bool gradrecomp_cuda_capture;
extern "C" const bool gradrecomp_cuda_capture = gradrecomp::profile::cuda::registered();
