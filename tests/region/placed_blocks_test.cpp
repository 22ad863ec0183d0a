// Conformance M14: steps on the CPU that follow a plan put their large blocks where planned.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "arena/host_arena.h"
#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/live_memory.h"

namespace gradrecomp::test {
namespace {

using PlacedBlocks = LiveMemory;

constexpr std::int64_t kElements = 64 << 10;

bool is_placed(const at::Tensor& tensor) {
  return arena::HostArena::of_process().placer().arena().owns(tensor.const_data_ptr());
}

/// A chain of sines in a region, and how many of its values were placed in the step that ran last.
class Subject {
 public:
  explicit Subject(Options options = {.policy = "every_2"}) : region_(std::move(options)) {}

  at::Tensor forward(int length = 8) {
    num_placed_ = 0;
    return region_.run([&] {
      at::Tensor x = input_;
      for (int i = 0; i < length; ++i) {
        x = x.sin();
        num_placed_ += is_placed(x) ? 1 : 0;
      }
      return x.sum();
    });
  }
  void step(int length = 8) { forward(length).backward(); }
  [[nodiscard]] int num_placed() const { return num_placed_; }
  [[nodiscard]] at::Tensor gradient() const { return input_.grad(); }

 private:
  at::Tensor input_ = leaf_with_gradient({kElements});
  Region region_;
  int num_placed_ = 0;
};

TEST_F(PlacedBlocks, M14AreThoseOfTheSecondStepUnderAPlanAndLater) {
  Subject subject;
  subject.step();  // profiled
  EXPECT_EQ(subject.num_placed(), 0);
  subject.step();  // logged
  EXPECT_EQ(subject.num_placed(), 0);
  for (int i = 0; i < 3; ++i) {
    subject.step();
    EXPECT_EQ(subject.num_placed(), 8);
  }
}

TEST_F(PlacedBlocks, M14AreGoneWhenTheStepIs) {
  Subject subject;
  for (int i = 0; i < 4; ++i) subject.step();
  EXPECT_EQ(arena::HostArena::of_process().placer().arena().bytes_in_use(), 0);
}

// What the second allocates counts as more of the first.
TEST_F(PlacedBlocks, M14AreTheFirstStepsOfTwoThatAreInFlight) {
  Subject subject;
  for (int i = 0; i < 3; ++i) subject.step();
  const auto first = subject.forward();
  EXPECT_EQ(subject.num_placed(), 8);
  const auto second = subject.forward();
  second.backward();
  first.backward();
  subject.step();
  EXPECT_EQ(subject.num_placed(), 8);
}

TEST_F(PlacedBlocks, M14SurviveAStepThatGetsNoBackwardPass) {
  Subject subject;
  for (int i = 0; i < 3; ++i) subject.step();
  subject.forward();
  subject.step();
  EXPECT_EQ(subject.num_placed(), 8);
}

TEST_F(PlacedBlocks, M14GradientsAreEqualWhereverBlocksLie) {
  const auto gradient_of = [](int num_steps) {
    torch::manual_seed(3);
    Subject subject;
    for (int i = 0; i < num_steps; ++i) {
      subject.gradient().zero_();
      subject.step(i % 3 == 2 ? 5 : 8);  // a sequence that ends early, in between
    }
    return subject.gradient().clone();
  };
  EXPECT_TRUE(torch::equal(gradient_of(1), gradient_of(8)));
}

}  // namespace
}  // namespace gradrecomp::test
