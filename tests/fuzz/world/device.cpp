#include "fuzz/world/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cstdlib>
#include <exception>

#include "fuzz/world/dice.h"
#include "gradrecomp/memory_meter.h"
#include "support/host_device/install.h"
#include "support/host_device/modes.h"

namespace gradrecomp::fuzzing {
namespace {

Place place = Place::cpu;

// CUDA's libraries keep workspaces of whole MiB. Tensors of programs are smaller.
constexpr std::int64_t kLeastWorkspaceBytes = std::int64_t{1} << 20;

// Two runs of a program are to give the same bits. Also fills what is allocated and not written.
void ask_cuda_for_determinism() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);  // before CUDA starts
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

/// Lets `second` wait for what `first` has been given so far.
void order(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(second);
}

// Autograd's thread of the device frees what a backward pass has left when the caller has gone on.
// It takes up nothing else before; this takes no memory itself.
void wait_for_autograd() {
  const auto nothing = torch::empty({0}, device()).requires_grad_();
  (nothing * 1).backward(torch::empty({0}, device()));
}

void record(const torch::Tensor& tensor, const c10::Stream& stream) {
  if (tensor.defined() && tensor.has_storage() && !tensor.is_cpu()) tensor.record_stream(stream);
}

}  // namespace

torch::Device device() {
  if (place == Place::cuda) return {torch::kCUDA, 0};
  return place == Place::host ? test::installed_host_device() : torch::Device(torch::kCPU);
}

void live_on(Place where) {
  if (where == Place::host) test::installed_host_device();
  if (where == Place::cuda) ask_cuda_for_determinism();
  place = where;
}

torch::Device device_of_kernels() {
  return place == Place::cuda ? device() : torch::Device(torch::kCPU);
}

torch::Generator new_generator(std::uint64_t seed) {
  if (place != Place::cuda) return at::detail::createCPUGenerator(seed);
  auto generator =
      at::globalContext().getAcceleratorHooksInterface(device().type()).getNewGenerator(0);
  generator.set_current_seed(seed);
  return generator;
}

struct DeviceSchedule::Scopes {
  explicit Scopes(std::uint64_t seed) : schedule(seed) {}

  test::AsynchronousDevice schedule;
  test::KernelsOfDevice kernels;
};

DeviceSchedule::DeviceSchedule(std::uint64_t seed) {
  Dice dice(seed);
  if (place == Place::host) scopes_ = std::make_unique<Scopes>(dice.chance(0.25) ? 0 : dice.next());
}

DeviceSchedule::~DeviceSchedule() { finish_work(); }

struct SideStream::Streams {
  c10::Stream present;
  c10::StreamGuard guard;
};

SideStream::SideStream(std::int64_t which) {
  if (place == Place::cpu) return;
  const c10::impl::VirtualGuardImpl devices(device().type());
  static const std::array sides = {devices.getStreamFromGlobalPool(device()),
                                   devices.getStreamFromGlobalPool(device())};
  const c10::Stream present = devices.getStream(device());
  order(present, sides[which]);
  streams_.reset(new Streams{present, c10::StreamGuard(sides[which])});
}

SideStream::~SideStream() {
  if (streams_) order(streams_->guard.current_stream(), streams_->present);
}

void SideStream::reads(const torch::Tensor& tensor) const {
  if (streams_) record(tensor, streams_->guard.current_stream());
}

void SideStream::gives(const torch::Tensor& tensor) const {
  if (streams_) record(tensor, streams_->present);
}

void finish_work() noexcept {
  if (place == Place::cpu) return;
  try {
    wait_for_autograd();
    c10::impl::VirtualGuardImpl(device().type()).synchronizeDevice(device().index());
  } catch (const std::exception& /*error*/) {
    return;
  }
}

bool device_works() noexcept {
  try {
    return torch::ones({1}, device()).item<float>() == 1;
  } catch (const std::exception& /*error*/) {
    return false;
  }
}

std::int64_t live_bytes() {
  finish_work();
  // A card's allocator takes back what was recorded on other streams when it is next asked for
  // memory.
  if (place == Place::cuda) torch::empty({1}, device());
  const auto bytes = memory_counter(device()).current_bytes;
  return place == Place::cuda ? bytes % kLeastWorkspaceBytes : bytes;
}

bool may_hold_workspaces(std::int64_t bytes) {
  return place == Place::cuda && bytes >= kLeastWorkspaceBytes;
}

void fill_fresh_device_memory(std::uint8_t byte) {
  if (place == Place::host) test::poison_host_device_with(byte);
}

}  // namespace gradrecomp::fuzzing
