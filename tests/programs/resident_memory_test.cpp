#include "measure/resident_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"

namespace gradrecomp::program {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// Of what the process does besides: threads' stacks, code that runs for the first time.
constexpr std::int64_t kSlack = 4 * kMiB;

class ResidentMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers hold pages of their own for each that the program holds";
#endif
    if (!ResidentMeter().peak_bytes()) GTEST_SKIP() << "the system does not tell";
  }
};

TEST_F(ResidentMemory, IsWhatIsTouched) {
  const ResidentMeter meter;
  {
    const auto touched = torch::ones({48 * kMiB}, torch::kByte);
    const auto reserved = torch::empty({64 * kMiB}, torch::kByte);
  }
  EXPECT_GE(*meter.peak_bytes(), 48 * kMiB);
  EXPECT_LE(*meter.peak_bytes(), 48 * kMiB + kSlack);
}

TEST_F(ResidentMemory, OfFreeBlocksCountsAgainOnceTheyAreGivenBack) {
  torch::ones({48 * kMiB}, torch::kByte);
  const ResidentMeter meter;
  torch::ones({32 * kMiB}, torch::kByte);
  EXPECT_GE(*meter.peak_bytes(), 32 * kMiB);
}

/// What a step under `policy` adds to the process, against the peak that is counted.
void expect_close_to_counted(const std::string& policy) {
  auto input = torch::randn({kMiB}).requires_grad_();
  input.mutable_grad() = torch::zeros_like(input);
  Region region({.policy = policy});
  const auto step = [&] {
    region
        .run([&] {
          at::Tensor x = input;
          for (int i = 0; i < 24; ++i) x = i % 3 == 0 ? (x * 0.5 + x).cos() : x.sin();
          return x.sum();
        })
        .backward();
  };
  for (int i = 0; i < 3; ++i) step();
  const ResidentMeter meter;
  const MemoryMeter counted(c10::kCPU);
  step();
  ASSERT_GT(counted.measured_peak_bytes(), 16 * kMiB);
  EXPECT_LE(*meter.peak_bytes(), counted.measured_peak_bytes() * 21 / 20 + kSlack) << policy;
}

TEST_F(ResidentMemory, M14OfAStepUnderAPlanIsCloseToItsCountedPeak) {
  for (const char* policy : {"keep_all", "every_2", "every_4", "drop_all"}) {
    expect_close_to_counted(policy);
  }
}

}  // namespace
}  // namespace gradrecomp::program
