#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>

#include <optional>

namespace gradrecomp::tape {

/// The bytes of a storage in host memory, and their ways there and back.
///
/// On a device with streams both ways run on streams of their own, beside the device's work, from
/// and to pinned memory; whoever needs their end lets the present stream wait for it, not the host.
/// On the CPU they are plain copies.
class HostCopy {
 public:
  /// Starts the way there behind the present stream's work. `original` must live until leave().
  explicit HostCopy(const c10::Storage& original);
  /// What is under way when the copy dies ends before the present stream's next work.
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// Waits until the original is not needed any more.
  void leave();
  /// A storage like the original, on its way back. Usable behind arrive().
  c10::Storage bring_back();
  /// Waits until what bring_back() gave is there.
  void arrive();

 private:
  void wait(const std::optional<c10::Event>& event) const;

  c10::Device device_;
  std::optional<c10::Stream> stream_;  ///< that the original was there on
  c10::Storage host_;
  std::optional<c10::Event> stored_;   ///< of devices with streams
  std::optional<c10::Event> fetched_;  ///< likewise
};

}  // namespace gradrecomp::tape
