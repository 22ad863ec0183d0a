#include "install.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include "memory/allocator.h"
#include "memory/pinned_memory.h"
#include "operators/convolution.h"
#include "operators/copies.h"
#include "operators/dropout.h"
#include "operators/operator_call.h"
#include "operators/tensors.h"
#include "streams/streams.h"

namespace gradrecomp::test {
namespace host_device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kNumDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  // What draws on this device draws on the CPU.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*device*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    if (is_asynchronous()) return &pinned_memory();
    return c10::GetCPUAllocator();
  }
  bool isPinnedPtr(const void* data) const override { return pinned_memory().contains(data); }
};

bool install() {
  c10::SetAllocator(c10::kPrivateUse1, &allocator());
  c10::register_privateuse1_backend("hostdevice");
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_guard();
  register_tensors();
  register_copies();
  register_convolution();
  register_dropout();
  static auto library = MAKE_TORCH_LIBRARY_IMPL(_, PrivateUse1);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  return true;
}

}  // namespace
}  // namespace host_device

c10::Device installed_host_device(c10::DeviceIndex index) {
  static const bool installed = host_device::install();
  (void)installed;
  return {c10::kPrivateUse1, index};
}

}  // namespace gradrecomp::test
