#include "gradrecomp/memory_meter.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <thread>

namespace gradrecomp::profile {
namespace {

class MemoryMeterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
};

TEST_F(MemoryMeterTest, CountsBytesWithoutTheAllocatorsRounding) {
  const MemoryMeter meter(c10::kCPU);
  const auto x = torch::empty({3}, torch::kByte);
  EXPECT_EQ(meter.growth_bytes(), 3);
}

TEST_F(MemoryMeterTest, PeakOutlivesTheTensorThatMadeIt) {
  const MemoryMeter meter(c10::kCPU);
  { const auto x = torch::empty({1000}, torch::kByte); }
  EXPECT_EQ(meter.growth_bytes(), 0);
  EXPECT_EQ(meter.measured_peak_bytes(), 1000);
}

TEST_F(MemoryMeterTest, InnerMeterBeginsItsOwnPeakAndOuterOneSeesIt) {
  const MemoryMeter outer(c10::kCPU);
  { const auto x = torch::empty({500}, torch::kByte); }
  {
    const MemoryMeter inner(c10::kCPU);
    const auto y = torch::empty({200}, torch::kByte);
    EXPECT_EQ(inner.measured_peak_bytes(), 200);
  }
  EXPECT_EQ(outer.measured_peak_bytes(), 500);
  {
    const MemoryMeter inner(c10::kCPU);
    const auto y = torch::empty({800}, torch::kByte);
  }
  EXPECT_EQ(outer.measured_peak_bytes(), 800);
}

TEST_F(MemoryMeterTest, CountsWhatOtherThreadsAllocateAndFree) {
  const MemoryMeter meter(c10::kCPU);
  at::Tensor x;
  std::thread([&] { x = torch::empty({64}, torch::kByte); }).join();
  EXPECT_EQ(meter.growth_bytes(), 64);
  x = at::Tensor();
  EXPECT_EQ(meter.growth_bytes(), 0);
}

TEST_F(MemoryMeterTest, MoreThanThereCanBeIsRefusedAsByLibTorch) {
  for (const std::size_t below : {0, 64, 127, 128}) {
    const std::size_t bytes = std::numeric_limits<std::size_t>::max() - below;
    EXPECT_THROW(static_cast<void>(c10::GetCPUAllocator()->allocate(bytes)), c10::Error) << below;
  }
}

TEST_F(MemoryMeterTest, TotalOnlyGrows) {
  const auto before = memory_counter(c10::kCPU).total_bytes;
  { const auto x = torch::empty({10}, torch::kByte); }
  EXPECT_EQ(memory_counter(c10::kCPU).total_bytes, before + 10);
}

TEST_F(MemoryMeterTest, EmptyTensorsCountNothingAndMemoryStaysAligned) {
  const MemoryMeter meter(c10::kCPU);
  const auto empty = torch::empty({0});
  EXPECT_EQ(meter.growth_bytes(), 0);
  for (int size = 1; size < 200; size += 13) {
    const auto x = torch::empty({size}, torch::kByte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 64, 0U);
  }
}

}  // namespace
}  // namespace gradrecomp::profile
