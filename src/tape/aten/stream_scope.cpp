#include "tape/aten/stream_scope.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace gradrecomp::tape {

void order(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(second);
}

c10::Stream current_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void note_use(const c10::Storage& storage, const c10::Stream& stream) {
  if (storage.device() != stream.device()) return;
  c10::impl::VirtualGuardImpl(stream.device_type())
      .recordDataPtrOnStream(storage.data_ptr(), stream);
}

StreamScope::StreamScope(const std::optional<c10::Stream>& stream) {
  if (!stream) return;
  before_.emplace(current_stream_of(stream->device()));
  if (*before_ != *stream) order(*before_, *stream);
  guard_.emplace(*stream);
}

StreamScope::~StreamScope() {
  if (!guard_) return;
  const c10::Stream stream = guard_->current_stream();
  guard_.reset();
  try {
    if (*before_ != stream) order(stream, *before_);
  } catch (const c10::Error&) {
    // The device has failed, and reports that to its next user.
    return;
  }
}

}  // namespace gradrecomp::tape
