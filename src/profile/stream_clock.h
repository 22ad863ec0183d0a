#pragma once

#include <c10/core/Event.h>

#include <cstdint>
#include <vector>

namespace gradrecomp::profile {

/// Takes times on the present CUDA stream, by events: work is enqueued long before it runs, so a
/// host clock would see nothing of it. Nothing waits until a time is asked for.
class StreamClock {
 public:
  using Moment = std::int32_t;
  static constexpr Moment kNone = -1;

  /// Marks where the stream is now; kNone where no CUDA device is in use.
  Moment now();
  /// Seconds from one moment of a device to a later one, after waiting for both. 0 for kNone.
  double seconds_between(Moment from, Moment to);

 private:
  std::vector<c10::Event> events_;
};

}  // namespace gradrecomp::profile
