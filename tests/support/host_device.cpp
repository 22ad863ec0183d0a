#include "host_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gradrecomp/profile/device_reports.h"

namespace gradrecomp::test {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

/// Counts requested and rounded bytes, as CUDA's allocator does, but caches nothing.
class HostDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &HostDeviceAllocator::free, kHostDevice};
    void* pointer = c10::alloc_cpu(bytes);
    const std::lock_guard lock(mutex_);
    sizes_[pointer] = bytes;
    count(static_cast<std::int64_t>(bytes), 1);
    profile::report_allocated(pointer, bytes, kHostDevice);
    return {pointer, pointer, &HostDeviceAllocator::free, kHostDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &HostDeviceAllocator::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    const std::lock_guard lock(mutex_);
    for (auto* stat : stats()) stat->peak = stat->current;
  }

 private:
  std::array<c10::CachingAllocator::Stat*, 2> stats() {
    return {&stats_.requested_bytes[0], &stats_.allocated_bytes[0]};
  }
  void count(std::int64_t bytes, int sign) {
    constexpr std::int64_t kBlock = 512;
    stats()[0]->current += sign * bytes;
    stats()[1]->current += sign * ((bytes + kBlock - 1) / kBlock * kBlock);
    for (auto* stat : stats()) stat->peak = std::max(stat->peak, stat->current);
  }
  void release(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto entry = sizes_.find(pointer);
    count(static_cast<std::int64_t>(entry->second), -1);
    profile::report_freed(pointer, kHostDevice);
    sizes_.erase(entry);
    c10::free_cpu(pointer);
  }
  static void free(void* pointer);

  std::recursive_mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;
  DeviceStats stats_;
};

HostDeviceAllocator& allocator() {
  static auto* allocator = new HostDeviceAllocator;  // blocks may outlive statics
  return *allocator;
}

void HostDeviceAllocator::free(void* pointer) {
  if (pointer != nullptr) allocator().release(pointer);
}

/// Work is done when it has been given, so streams need no order and events only keep time.
class HostDeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  using Clock = std::chrono::steady_clock;

  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return kHostDevice; }
  c10::Device getDevice() const override { return kHostDevice; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device device) const override { return stream(device, present_); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*important*/) const override {
    static std::atomic<c10::StreamId> last{0};
    return stream(device, ++last);
  }
  void* getStreamNativeHandle(c10::Stream /*stream*/) const override { return nullptr; }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(next.device(), std::exchange(present_, next.id()));
  }

  void record(void** event, const c10::Stream& /*stream*/, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Clock::time_point;
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  void synchronizeEvent(void* /*event*/) const override {}
  bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& /*stream*/) const override {}
  void synchronizeDevice(c10::DeviceIndex /*device*/) const override {}
  void recordDataPtrOnStream(const c10::DataPtr& /*data*/,
                             const c10::Stream& /*stream*/) const override {}
  double elapsedTime(void* from, void* to, c10::DeviceIndex /*device*/) const override {
    const auto& [begin, end] =
        std::pair(*static_cast<Clock::time_point*>(from), *static_cast<Clock::time_point*>(to));
    return std::chrono::duration<double, std::milli>(end - begin).count();
  }

 private:
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  static thread_local c10::StreamId present_;
};

thread_local c10::StreamId HostDeviceGuard::present_ = 0;

struct HostDeviceHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  // What draws on this device draws on the CPU.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*device*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  auto host = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                   c10::DataPtr(tensor.storage().mutable_data(), c10::kCPU), nullptr, false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  return host;
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> /*layout*/,
                               std::optional<at::Device> /*device*/, std::optional<bool> /*pin*/,
                               std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> /*device*/, std::optional<bool> /*pin*/) {
  return at::detail::empty_strided_generic(size, stride, &allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool /*non_blocking*/) {
  on_host(target).copy_(on_host(self));
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat> /*format*/) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const auto bytes = self.nbytes() + self.storage_offset() * self.itemsize();
  if (bytes > self.storage().nbytes()) {
    self.storage().set_data_ptr_noswap(allocator().allocate(bytes));
    self.storage().set_nbytes(bytes);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, std::int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(size, stride, offset);
  return self;
}

at::Scalar local_scalar_dense(const at::Tensor& self) { return on_host(self).item(); }

at::Tensor on_device(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(kHostDevice) : tensor;
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const auto host_bias = bias && bias->defined() ? std::optional(on_host(*bias)) : std::nullopt;
  return on_device(at::convolution(on_host(input), on_host(weight), host_bias, stride, padding,
                                   dilation, transposed, output_padding, groups));
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
                               const at::Tensor& weight, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                               at::IntArrayRef output_padding, std::int64_t groups,
                               std::array<bool, 3> mask) {
  const std::vector<std::int64_t> bias_sizes = {gradient.size(1)};
  const auto [of_input, of_weight, of_bias] =
      at::convolution_backward(on_host(gradient), on_host(input), on_host(weight), bias_sizes,
                               stride, padding, dilation, transposed, output_padding, groups, mask);
  return {on_device(of_input), on_device(of_weight), on_device(of_bias)};
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty_memory_format);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &resize);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("convolution_overrideable", &convolution);
  library.impl("convolution_backward_overrideable", &convolution_backward);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, HostDeviceGuard)

const bool registered = [] {
  c10::SetAllocator(c10::kPrivateUse1, &allocator());
  c10::register_privateuse1_backend("hostdevice");
  at::RegisterPrivateUse1HooksInterface(new HostDeviceHooks);
  return true;
}();

}  // namespace

void move_to_host_device(torch::nn::Module& module) {
  const auto move = [](const at::Tensor& tensor) {
    const auto moved = tensor.detach().to(kHostDevice);
    tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
  };
  for (const auto& parameter : module.parameters()) move(parameter);
  for (const auto& buffer : module.buffers()) move(buffer);
}

}  // namespace gradrecomp::test
