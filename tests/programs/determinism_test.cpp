
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "workload/device.h"

namespace gradrecomp::program {
namespace {

class Determinism : public ::testing::Test {
 protected:
  ~Determinism() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
};

TEST_F(Determinism, IsStrictWhereEveryOperatorCanBe) {
  int num_steps = 0;
  run_deterministically([&] { ++num_steps; });
  EXPECT_EQ(num_steps, 1);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
}

TEST_F(Determinism, LetsAnOperatorBeThatCannot) {
  auto x = torch::zeros({4});
  const auto writes_in_any_order = [&] {
    x.put_(torch::tensor({1}), torch::ones({1}), /*accumulate=*/false);
  };
  run_deterministically(writes_in_any_order);
  EXPECT_EQ(x[1].item<float>(), 1);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithmsWarnOnly());
}

TEST_F(Determinism, OtherErrorsAreTheCallers) {
  int num_steps = 0;
  const auto fails = [&] {
    ++num_steps;
    TORCH_CHECK(false, "out of memory");
  };
  EXPECT_THROW(run_deterministically(fails), c10::Error);
  EXPECT_EQ(num_steps, 1);
}

}  // namespace
}  // namespace gradrecomp::program
