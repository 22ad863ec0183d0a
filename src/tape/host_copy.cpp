#include "host_copy.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <utility>

#include "bytes.h"
#include "host_pool.h"
#include "stream_scope.h"
#include "unseen.h"

namespace gradrecomp::tape {
namespace {

enum class Way : std::uint8_t { there, back };

/// Devices copy both ways at once if each has a stream of its own.
c10::Stream side_stream(c10::Device device, Way way) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, Way>, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(device.index(), way);
  const auto known = streams.find(key);
  if (known != streams.end() && known->second.device_type() == device.type()) return known->second;
  const c10::impl::VirtualGuardImpl impl(device.type());
  return streams.insert_or_assign(key, impl.getStreamFromGlobalPool(device)).first->second;
}

c10::Storage host_storage(c10::Device device, std::size_t size) {
  if (device.is_cpu()) {
    return {c10::Storage::use_byte_size_t(), size, HostPool::of_process().allocate(size), nullptr,
            false};
  }
  const auto bytes = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
  return at::empty({static_cast<std::int64_t>(size)}, bytes).storage();
}

/// Copies behind the present stream's work, on `way`'s stream. Returns when that has ended.
std::optional<c10::Event> copy(const c10::Storage& to, const c10::Storage& from, c10::Device device,
                               Way way) {
  const at::Tensor target = as_bytes(to);
  if (device.is_cpu()) {
    target.copy_(as_bytes(from));
    return std::nullopt;
  }
  const c10::Stream side = side_stream(device, way);
  order(present_stream_of(device), side);
  const c10::StreamGuard on_side(side);
  target.copy_(as_bytes(from), /*non_blocking=*/true);
  std::optional<c10::Event> end(std::in_place, device.type());
  end->record(side);
  return end;
}

}  // namespace

HostCopy::HostCopy(const c10::Storage& original) : device_(original.device()) {
  const Unseen unseen;
  if (!device_.is_cpu()) stream_ = present_stream_of(device_);
  host_ = host_storage(device_, original.nbytes());
  stored_ = copy(host_, original, device_, Way::there);
}

HostCopy::~HostCopy() {
  try {
    wait(stored_);
    wait(fetched_);
  } catch (const c10::Error&) {
    // The device has failed, and says so to whoever asks it for something next.
    return;
  }
}

// Its memory is given back to the stream that it was made on, whichever is present now.
void HostCopy::leave() {
  wait(stored_);
  if (stored_) stored_->block(*stream_);
  stored_.reset();
}

c10::Storage HostCopy::bring_back() {
  const Unseen unseen;
  const auto size = static_cast<std::int64_t>(host_.nbytes());
  auto device_bytes = at::empty({size}, at::TensorOptions().dtype(at::kByte).device(device_));
  fetched_ = copy(device_bytes.storage(), host_, device_, Way::back);
  return device_bytes.storage();
}

void HostCopy::arrive() { wait(fetched_); }

void HostCopy::wait(const std::optional<c10::Event>& event) const {
  if (event) event->block(present_stream_of(device_));
}

}  // namespace gradrecomp::tape
