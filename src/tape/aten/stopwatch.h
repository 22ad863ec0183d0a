#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <optional>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Times work from its construction on: on a stream by events, as a host clock would only see the
/// work being enqueued, else by the host's clock.
class Stopwatch {
 public:
  explicit Stopwatch(const std::optional<c10::Stream>& stream = std::nullopt);

  /// Until now. Waits for the stream.
  double seconds();

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> begin_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace gradrecomp::tape
