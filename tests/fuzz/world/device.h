#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace gradrecomp::fuzzing {

/// Where the tensors of programs live: on the CPU, or on the device of host memory.
torch::Device device();

/// From now on on the device of host memory, for the rest of the process. To be called before the
/// first backward pass.
void live_on_host_device();

inline torch::TensorOptions on_device(torch::ScalarType dtype) {
  return torch::TensorOptions(dtype).device(device());
}

/// Lets the device do its work in its scope at moments that a seed chooses, or as late as it can.
/// On the CPU, which does all at once, it changes nothing.
class DeviceSchedule {
 public:
  explicit DeviceSchedule(std::uint64_t seed);
  ~DeviceSchedule();
  DeviceSchedule(const DeviceSchedule&) = delete;
  DeviceSchedule& operator=(const DeviceSchedule&) = delete;

 private:
  struct Scopes;
  std::unique_ptr<Scopes> scopes_;
};

/// Makes one of two streams of the device the current one in its scope. It begins after what the
/// current one has been given, which goes on after it. On the CPU it does nothing.
class SideStream {
 public:
  explicit SideStream(std::int64_t which);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// The stream reads a tensor of the current one.
  void reads(const torch::Tensor& tensor) const;
  /// The current stream reads a tensor of this one.
  void gives(const torch::Tensor& tensor) const;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

/// Waits for all that the device has been given, and until autograd's thread has freed what it does
/// not need any more. Leaves out what that work throws.
void finish_work() noexcept;

/// What memory of the device is filled with when it is allocated.
void fill_fresh_device_memory(std::uint8_t byte);

}  // namespace gradrecomp::fuzzing
