#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace gradrecomp::fuzzing {

enum class Place : std::uint8_t {
  cpu,
  host,  ///< a device of host memory that does its work late, or at random moments
  cuda,  ///< the first CUDA card
};

/// Where the tensors of programs live.
torch::Device device();

/// From now on there, for the rest of the process. To be called before the first backward pass. A
/// card is asked for deterministic algorithms, and LibTorch then fills what is allocated and not
/// written.
void live_on(Place place);

/// Whose generators and mixed precision it uses: a device of host memory those of the CPU.
torch::Device device_of_kernels();

/// A generator that operators of the device draw from.
torch::Generator new_generator(std::uint64_t seed);

inline torch::TensorOptions on_device(torch::ScalarType dtype) {
  return torch::TensorOptions(dtype).device(device());
}

/// Lets the device do its work in its scope at moments that a seed chooses, or as late as it can.
/// The CPU does all at once and a card what it likes, so there it changes nothing.
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

/// Whether it still does what it is given: after an error in a kernel a card does nothing more for
/// the process.
bool device_works() noexcept;

/// Bytes of the device's tensors. A card's libraries keep workspaces there, which do not count.
std::int64_t live_bytes();
/// Whether so many bytes may be such workspaces, as tensors of programs are smaller.
bool may_hold_workspaces(std::int64_t bytes);

/// What memory of the device is filled with when it is allocated.
void fill_fresh_device_memory(std::uint8_t byte);

}  // namespace gradrecomp::fuzzing
