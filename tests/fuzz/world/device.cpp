#include "fuzz/world/device.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <exception>

#include "fuzz/world/dice.h"
#include "support/host_device/install.h"
#include "support/host_device/modes.h"

namespace gradrecomp::fuzzing {
namespace {

bool is_host_device = false;

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
  return is_host_device ? test::installed_host_device() : torch::Device(torch::kCPU);
}

void live_on_host_device() {
  test::installed_host_device();
  is_host_device = true;
}

struct DeviceSchedule::Scopes {
  explicit Scopes(std::uint64_t seed) : schedule(seed) {}

  test::AsynchronousDevice schedule;
  test::KernelsOfDevice kernels;
};

DeviceSchedule::DeviceSchedule(std::uint64_t seed) {
  Dice dice(seed);
  if (is_host_device) scopes_ = std::make_unique<Scopes>(dice.chance(0.25) ? 0 : dice.next());
}

DeviceSchedule::~DeviceSchedule() { finish_work(); }

struct SideStream::Streams {
  c10::Stream present;
  c10::StreamGuard guard;
};

SideStream::SideStream(std::int64_t which) {
  if (!is_host_device) return;
  const c10::impl::VirtualGuardImpl devices(c10::kPrivateUse1);
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
  if (!is_host_device) return;
  try {
    wait_for_autograd();
    c10::impl::VirtualGuardImpl(c10::kPrivateUse1).synchronizeDevice(device().index());
  } catch (const std::exception& /*error*/) {
    return;
  }
}

void fill_fresh_device_memory(std::uint8_t byte) {
  if (is_host_device) test::poison_host_device_with(byte);
}

}  // namespace gradrecomp::fuzzing
