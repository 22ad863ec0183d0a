#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>

#include <optional>

#include "tape/away/value_copy.h"

namespace gradrecomp::tape {

/// The bytes of a storage in host memory, and their ways there and back.
///
/// On a device with streams both ways run on streams of their own, beside the device's work, from
/// and to pinned memory; where their end is needed, a stream waits for it, not the host. On the
/// CPU they are plain copies.
///
/// Memory may be used again by the stream that it was allocated on, its home, as soon as it is
/// freed: so the home waits for copies from it and to it. Where it is not known, the allocator is
/// told of them.
class HostCopy final : public ValueCopy {
 public:
  /// Starts the way there after the current stream's work. `original` must live until leave().
  HostCopy(const c10::Storage& original, const std::optional<c10::Stream>& home);
  /// A transfer that is still running when the copy dies ends before the memory is used again.
  ~HostCopy() override;
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  void leave() override;
  /// With the same home as the original, and on its way.
  c10::Storage bring_back() override;
  void arrive() const override;
  void give_up() override;

 private:
  void free_after(std::optional<c10::Event>& event) const;

  c10::Device device_;
  std::optional<c10::Stream> home_;
  c10::Storage host_;
  std::optional<c10::Event> stored_;   ///< of devices with streams
  std::optional<c10::Event> fetched_;  ///< likewise
};

}  // namespace gradrecomp::tape
