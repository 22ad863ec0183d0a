#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {
class Tape;
}

namespace gradrecomp::profile {

/// What a device's allocator reported of one block.
struct DeviceReport {
  const void* pointer = nullptr;
  c10::Device device = c10::kCPU;
  std::int64_t bytes = 0;    ///< 0 if freed
  bool freed = false;        ///< else allocated
  bool own_work = false;     ///< by GradRecomp itself
  bool by_recorder = false;  ///< on the thread that began the log
};

// Note [ Reports of devices ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// CUDA's allocator calls its tracers while it holds its lock. A step log takes locks too, those of
// the tape and its own, and under them it allocates and frees. So reports are only noted down, in
// order, and read where the step log next comes by: at ops, unpacks and releases.
//
// What the program lets go of while the tape still holds it is not reported. The step log has
// to look for it before memory is taken again, or it is counted in a peak that it is no longer part
// of. So an allocation is announced to the step log before it is noted down. Under the allocator's
// lock that log must not wait for another: where one of its own is taken, it looks later.
//
// A device's backward runs on a thread of autograd's, so a log takes what its own thread allocates
// and what any thread allocates that runs a backward pass. What other threads do to the device,
// such as loading the next batch, is not the step's. Two models that train on one device at once
// see each other in their first steps.
//
// That thread also takes host memory, as where a gradient goes back to the host. So once an op of
// the step has run on a device, the counting allocator reports the host memory that threads other
// than the log's own take, by the same rule; the log sees at once what its own thread takes.

/// The reports of one step, until they are taken. Any number of threads.
class DeviceLog {
 public:
  /// Told before an allocation is noted down, and whether the thread that began the log makes it.
  /// Called under the allocator's lock: must neither wait for a lock nor allocate on a device.
  using Announce = std::function<void(bool by_recorder)>;

  /// Follows, from now on, what devices report for the step of `tape`.
  static std::shared_ptr<DeviceLog> begin(const tape::Tape* tape, Announce announce);
  DeviceLog(const tape::Tape* tape, Announce announce);
  ~DeviceLog();
  DeviceLog(const DeviceLog&) = delete;
  DeviceLog& operator=(const DeviceLog&) = delete;

  void add(const void* pointer, std::size_t bytes, bool freed, c10::Device device);
  /// From now on takes host memory of other threads, too.
  void follow_host();
  /// What has been reported since the last call, in order.
  std::vector<DeviceReport> take();
  /// Announces nothing any more once it returns.
  void fall_silent();

 private:
  [[nodiscard]] bool is_ours(bool by_recorder) const;

  const tape::Tape* tape_;  // to compare with
  std::thread::id recorder_ = std::this_thread::get_id();
  std::atomic<bool> follows_host_ = false;
  std::recursive_mutex mutex_;  // the receiver of an announcement takes what was noted before
  Announce announce_;
  std::vector<DeviceReport> reports_;
};

/// Tells the steps that are being profiled what this thread takes of the host, or gives back.
void report_host(const void* pointer, std::size_t bytes, bool freed) noexcept;

}  // namespace gradrecomp::profile
