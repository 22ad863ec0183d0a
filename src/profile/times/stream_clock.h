#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Takes times on streams, by events: work is enqueued long before it runs, so a host clock would
/// see nothing of it. Nothing waits until a time is asked for.
class StreamClock {
 public:
  using Moment = std::int32_t;
  static constexpr Moment kNone = -1;

  /// Marks where a stream is now.
  Moment mark(const c10::Stream& stream);
  /// Marks where the current CUDA stream is now; kNone where no CUDA device is in use.
  Moment now();
  /// Marks where the stream of `begin` is now, whichever is current: events of two devices have no
  /// time between them. kNone for kNone.
  Moment now_after(Moment begin);
  /// Seconds from one moment to one after it, after waiting for both. 0 for kNone.
  double seconds_between(Moment from, Moment to);

 private:
  std::vector<c10::Event> events_;
  std::vector<c10::Stream> streams_;  // of the events
};

}  // namespace gradrecomp::profile
