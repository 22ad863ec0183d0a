#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "streams/queue.h"
#include "streams/streams.h"

namespace gradrecomp::test::host_device {

/// Counts requested, allocated and reserved bytes as CUDA's allocator does, and reports what it
/// hands out and takes back while it holds its lock.
///
/// A synchronous device caches nothing. On an asynchronous one a block belongs to the stream it was
/// first allocated on: freed, it is at once what that stream's next allocation of its size gets,
/// and no other's. What is allocated is filled with poison in that stream's order. So is what was
/// freed there before, as the allocation might have got that.
class Allocator final : public c10::DeviceAllocator {
 public:
  /// Of this thread's device and stream.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &Allocator::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  bool initialized() override { return true; }
  /// Waits for all work, then gives back what is not in use.
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  /// What `stream` has been given until the block is freed is done before it is used again.
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override;

  /// The allocation after so many others finds no memory; counts all from now on.
  void fail_after(std::int64_t count) {
    failing_ = count;
    num_allocations_ = 0;
  }
  void fail_no_more() { failing_ = -1; }
  [[nodiscard]] bool has_failed() const { return num_allocations_ > failing_; }

  /// What memory is filled with from now on.
  void set_poison(std::uint8_t byte) { poison_ = byte; }

 private:
  struct Block {
    void* pointer = nullptr;
    std::size_t requested = 0;
    std::size_t size = 0;
    c10::DeviceIndex device = 0;
    Queue* owner = nullptr;             ///< none: of a synchronous device, goes back to the system
    std::vector<Queue*> users = {};     ///< others that were recorded
    std::vector<Place> last_uses = {};  ///< theirs, once the block is freed
  };

  static void free(void* pointer);
  Block take(std::size_t bytes);
  void release(void* pointer);
  void give_back(const Block& block);
  void give_back_what_is_done();
  void poison(Queue& owner, void* pointer, std::size_t size);
  void poison_freed(Queue& owner);

  std::unordered_map<void*, Block> live_;
  std::vector<Block> freed_in_use_;
  std::map<std::pair<Queue*, std::size_t>, std::vector<void*>> pools_;
  std::unordered_map<Queue*, std::map<void*, std::size_t>> not_poisoned_;  ///< of the pools
  std::array<c10::CachingDeviceAllocator::DeviceStats, kNumDevices> stats_;
  std::int64_t failing_ = -1;
  std::int64_t num_allocations_ = 0;
  std::uint8_t poison_ = 0x5a;  // an index far out of range, and a float of 1.5e16
};

Allocator& allocator();

}  // namespace gradrecomp::test::host_device
