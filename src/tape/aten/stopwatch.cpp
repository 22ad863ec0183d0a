#include "tape/aten/stopwatch.h"

namespace gradrecomp::tape {
namespace {

c10::Event mark(const c10::Stream& stream) {
  c10::Event event(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);  // keeps time
  event.record(stream);
  return event;
}

}  // namespace

Stopwatch::Stopwatch(const std::optional<c10::Stream>& stream)
    : stream_(stream), start_(std::chrono::steady_clock::now()) {
  if (stream_) begin_ = mark(*stream_);
}

double Stopwatch::seconds() {
  if (!stream_) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  const c10::Event end = mark(*stream_);
  end.synchronize();
  return begin_->elapsedTime(end) * 1e-3;
}

}  // namespace gradrecomp::tape
