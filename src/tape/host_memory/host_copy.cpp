#include "tape/host_memory/host_copy.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/stream_scope.h"
#include "tape/host_memory/host_pool.h"
#include "tape/host_memory/pinned_storage.h"

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
  return pinned_storage(size);
}

/// Copies on `way`'s stream, after what `before` has been given. Returns when that has ended.
c10::Event copy(const c10::Storage& to, const c10::Storage& from, const c10::Stream& before,
                const c10::Stream& way) {
  order(before, way);
  const c10::StreamGuard on_way(way);
  as_bytes(to).copy_(as_bytes(from), /*non_blocking=*/true);
  c10::Event end(way.device_type());
  end.record(way);
  return end;
}

}  // namespace

HostCopy::HostCopy(const c10::Storage& original, const std::optional<c10::Stream>& home)
    : device_(original.device()) {
  const BelowRecording below;
  if (home && home->device() == device_) home_ = home;
  host_ = host_storage(device_, original.nbytes());
  if (device_.is_cpu()) {
    as_bytes(host_).copy_(as_bytes(original));
    return;
  }
  const c10::Stream way = side_stream(device_, Way::there);
  stored_ = copy(host_, original, current_stream_of(device_), way);
  if (!home_) note_use(original, way);
}

HostCopy::~HostCopy() {
  try {
    leave();
    give_up();
  } catch (const c10::Error&) {
    // The device has failed, and reports that to its next user.
    return;
  }
}

// Memory of before the region may have another home, whose work waits for this stream's by now.
void HostCopy::leave() {
  if (stored_) stored_->block(current_stream_of(device_));
  free_after(stored_);
}

c10::Storage HostCopy::bring_back() {
  const BelowRecording below;
  const auto size = static_cast<std::int64_t>(host_.nbytes());
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
  if (device_.is_cpu()) {
    const at::Tensor back = at::empty({size}, bytes);
    return back.copy_(as_bytes(host_)).storage();
  }
  const c10::Stream allocates = home_.value_or(current_stream_of(device_));
  at::Tensor back;
  {
    const c10::StreamGuard at_home(allocates);
    back = at::empty({size}, bytes);
  }
  const c10::Stream way = side_stream(device_, Way::back);
  order(side_stream(device_, Way::there), way);
  fetched_ = copy(back.storage(), host_, allocates, way);
  if (!home_) note_use(back.storage(), way);
  return back.storage();
}

void HostCopy::arrive() const {
  if (fetched_) fetched_->block(current_stream_of(device_));
}

void HostCopy::give_up() { free_after(fetched_); }

void HostCopy::free_after(std::optional<c10::Event>& event) const {
  if (event && home_) event->block(*home_);
  event.reset();
}

}  // namespace gradrecomp::tape
