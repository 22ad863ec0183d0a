#pragma once

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Lets what `second` does from now on wait for what `first` has been given so far.
void order(const c10::Stream& first, const c10::Stream& second);

/// The stream that is current on `device`, which must be one that has streams.
c10::Stream current_stream_of(c10::Device device);

/// Keeps the memory of `storage`, once freed, from being reused until `stream` has finished what it
/// was given before that. For memory that was allocated on another.
void note_use(const c10::Storage& storage, const c10::Stream& stream);

/// Makes a stream the current one, ordered after and before the current stream's work.
class StreamScope {
 public:
  /// None: does nothing, as on devices without streams.
  explicit StreamScope(const std::optional<c10::Stream>& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace gradrecomp::tape
