#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gradrecomp/memory_meter.h"

namespace gradrecomp::profile {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

const c10::Device kDevice(c10::kPrivateUse1, 0);

// Statistics of a caching allocator that hands out nothing: no device is needed to test the meters.
class FakeAllocator final : public c10::DeviceAllocator {
 public:
  void grow(std::int64_t bytes) {
    for (auto* stat : {&stats_.allocated_bytes[0], &stats_.requested_bytes[0]}) {
      stat->current += bytes;
      stat->peak = std::max(stat->peak, stat->current);
      if (bytes > 0) stat->allocated += bytes;
    }
  }
  DeviceStats stats_;
  bool initialized_ = true;

  bool initialized() override { return initialized_; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override { return stats_; }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    stats_.requested_bytes[0].peak = stats_.requested_bytes[0].current;
  }
  c10::DataPtr allocate(std::size_t /*bytes*/) override { return {}; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
};

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { c10::SetAllocator(c10::kPrivateUse1, &allocator_, 255); }
  void TearDown() override { c10::SetAllocator(c10::kPrivateUse1, nullptr, 255); }
  FakeAllocator allocator_;
};

TEST_F(DeviceMemoryTest, MeterBeginsAtThePresentBytes) {
  allocator_.grow(1000);
  allocator_.grow(-900);
  const MemoryMeter meter(kDevice);
  allocator_.grow(50);
  EXPECT_EQ(meter.start_bytes(), 100);
  EXPECT_EQ(meter.measured_peak_bytes(), 50);
  EXPECT_EQ(meter.growth_bytes(), 50);
}

TEST_F(DeviceMemoryTest, OuterMeterSeesPeaksFromBeforeAndInsideAnInnerOne) {
  const MemoryMeter outer(kDevice);
  allocator_.grow(500);
  allocator_.grow(-500);
  {
    const MemoryMeter inner(kDevice);
    allocator_.grow(200);
    EXPECT_EQ(inner.measured_peak_bytes(), 200);
    allocator_.grow(-200);
  }
  EXPECT_EQ(outer.measured_peak_bytes(), 500);
  {
    const MemoryMeter inner(kDevice);
    allocator_.grow(800);
    allocator_.grow(-800);
  }
  EXPECT_EQ(outer.measured_peak_bytes(), 800);
}

TEST_F(DeviceMemoryTest, TwoInnerMetersInTurnLoseNothing) {
  const MemoryMeter outer(kDevice);
  allocator_.grow(500);
  allocator_.grow(-500);
  { const MemoryMeter inner(kDevice); }
  { const MemoryMeter inner(kDevice); }
  EXPECT_EQ(outer.measured_peak_bytes(), 500);
}

TEST_F(DeviceMemoryTest, ReportsWhatTheAllocatorCounts) {
  allocator_.grow(512);
  allocator_.stats_.allocated_bytes[0].current = 1024;
  allocator_.stats_.reserved_bytes[0].current = 2048;
  allocator_.stats_.num_alloc_retries = 3;
  const DeviceMemory memory = device_memory(kDevice);
  EXPECT_EQ(memory.requested.current_bytes, 512);
  EXPECT_EQ(memory.allocated.current_bytes, 1024);
  EXPECT_EQ(memory.reserved.current_bytes, 2048);
  EXPECT_EQ(memory.num_alloc_retries, 3);
}

TEST_F(DeviceMemoryTest, DeviceThatWasNotUsedYetHasNothing) {
  allocator_.grow(512);
  allocator_.initialized_ = false;
  EXPECT_EQ(memory_counter(kDevice).current_bytes, 0);
  EXPECT_EQ(device_memory(kDevice).requested, MemoryCounter());
}

}  // namespace
}  // namespace gradrecomp::profile
