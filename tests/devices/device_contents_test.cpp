// Conformance H3 on devices: writes that version counters do not count, to what replays read there.
#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices/on_device.h"
#include "devices/streams.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 24;
constexpr const char* kFound = "was overwritten after the forward pass";

at::Tensor leaf(std::int64_t rows, std::int64_t columns) {
  return on_device(torch::randn({rows, columns}) * 0.3).requires_grad_();
}

/// What a step reads.
struct Inputs {
  at::Tensor x = on_device(torch::randn({kWidth, kWidth}));
  at::Tensor first = leaf(kWidth, kWidth);
  at::Tensor second = leaf(kWidth, 4);

  [[nodiscard]] at::Tensor forward() const {
    return torch::gelu(torch::tanh(x.matmul(first)) * x).matmul(second);
  }
  Tensors gradients() {
    Tensors all;
    for (at::Tensor* leaf : {&first, &second}) {
      all.push_back(std::exchange(leaf->mutable_grad(), at::Tensor()).cpu());
    }
    return all;
  }
};

using Write = std::function<void(Inputs&)>;

/// Steps with a write between forward and backward.
HostileProgram steps_with(const Write& write) {
  return [=](const RunPart& run) {
    Inputs inputs;
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor y = run([&] { return inputs.forward(); });
      write(inputs);
      y.pow(2).mean().backward();
      for (at::Tensor& gradient : inputs.gradients()) all.push_back(std::move(gradient));
    }
    return all;
  };
}

/// Runs a step of a region, with a write between forward and backward.
Tensors run_step(Region& region, Inputs& inputs, const Write& write) {
  const at::Tensor y = region.run([&] { return inputs.forward(); });
  write(inputs);
  y.pow(2).mean().backward();
  return inputs.gradients();
}

void nothing(Inputs& /*inputs*/) {}

/// The error of a step that follows a plan which drops all; empty if there was none.
std::string error_of_step(const Write& write, const Options& options = {.policy = "drop_all"}) {
  Inputs inputs;
  Region region(options);
  run_step(region, inputs, nothing);
  try {
    run_step(region, inputs, write);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

/// Of a device with kernels, which does its work at once, as late as something waits, or between.
class DeviceContents : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() >= 0) mode_.emplace(GetParam());
  }

 private:
  KernelsOfDevice kernels_;
  std::optional<AsynchronousDevice> mode_;
};

INSTANTIATE_TEST_SUITE_P(Modes, DeviceContents, ::testing::Values(-1, 0, 1, 2));

TEST_P(DeviceContents, H3WritesToWhatReplaysReadAreErrors) {
  const std::vector<Write> writes = {[](Inputs& inputs) { inputs.x.data().zero_(); },
                                     [](Inputs& inputs) { inputs.x.data()[3].fill_(2); },
                                     [](Inputs& inputs) { inputs.first.data().mul_(2); }};
  const Refusal refusal{.text = kFound, .least_num_same = 4};
  for (const Write& write : writes) {
    EXPECT_GT(expect_same_or_error_in_every_mode(steps_with(write), refusal), 0);
  }
}

TEST_P(DeviceContents, H3WritesToWhatOnlyPlainBackwardReadsArePlains) {
  expect_same_in_every_mode(steps_with([](Inputs& inputs) { inputs.second.data().add_(0.5); }));
  expect_same_in_every_mode(
      steps_with([](Inputs& inputs) { inputs.x.set_data(torch::ones_like(inputs.x)); }));
}

TEST_P(DeviceContents, H3ErrorNamesTheReaderAndSaysThatGradientsAreWrong) {
  const std::string error = error_of_step([](Inputs& inputs) { inputs.x.data().zero_(); });
  EXPECT_THAT(error, HasSubstr(kFound));
  EXPECT_THAT(error, HasSubstr("aten::mm of 2304 bytes"));
  EXPECT_THAT(error, HasSubstr("discard the gradients"));
}

TEST_P(DeviceContents, H3StepsWithoutSuchWritesEndWithoutAnError) {
  EXPECT_EQ(error_of_step(nothing), "");
  expect_same_in_every_mode(steps_with(nothing));
}

TEST_P(DeviceContents, H3GuardOffComparesNothing) {
  const Options off{.policy = "drop_all", .guard = Guard::off};
  EXPECT_EQ(error_of_step([](Inputs& inputs) { inputs.x.data().zero_(); }, off), "");
}

// A step after one that failed is as if that had not been.
TEST_P(DeviceContents, H3TheNextStepIsRight) {
  Inputs inputs;
  Region region({.policy = "drop_all"});
  run_step(region, inputs, nothing);
  EXPECT_ANY_THROW(run_step(region, inputs, [](Inputs& each) { each.x.data().mul_(3); }));
  inputs.gradients();
  const Tensors found = run_step(region, inputs, nothing);
  inputs.forward().pow(2).mean().backward();
  expect_same_bits(inputs.gradients(), found);
}

/// Whether a write to one element of a large memory, of which replays read rows `begin` to `end`,
/// is found.
bool is_found(std::int64_t begin, std::int64_t end, std::int64_t row, std::int64_t column) {
  const at::Tensor pool = on_device(torch::randn({512, 257}));
  const at::Tensor x = leaf(4, 257);
  Region region({.policy = "drop_all"});
  const auto forward = [&] {
    const at::Tensor rows = pool.slice(0, begin, end);
    return region.run([&] { return x.matmul(rows.t()).exp().sin(); }).sum();
  };
  forward().backward();
  gradient_of(x);  // a step that begins with one is another sequence
  const at::Tensor y = forward();
  pool.data()[row][column].fill_(7);
  try {
    y.backward();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr(kFound));
    return true;
  }
  return false;
}

TEST_P(DeviceContents, H3AnElementOfALargeMemoryIsSeenAndOnlyWhereReplaysRead) {
  EXPECT_TRUE(is_found(0, 512, 0, 0));
  EXPECT_TRUE(is_found(0, 512, 511, 256));
  EXPECT_TRUE(is_found(100, 300, 100, 0));
  EXPECT_TRUE(is_found(100, 300, 231, 17));
  EXPECT_TRUE(is_found(100, 300, 299, 256));
  EXPECT_FALSE(is_found(100, 300, 99, 256));
  EXPECT_FALSE(is_found(100, 300, 300, 0));
}

TEST_P(DeviceContents, H3GradientsOfAReleasedGraphNeedNoComparison) {
  Inputs inputs;
  Region region({.policy = "drop_all"});
  run_step(region, inputs, nothing);
  for (int step = 0; step < 3; ++step) region.run([&] { return inputs.forward(); });
  region.run([&] { return inputs.forward(); }).sum().backward();
  const Tensors found = inputs.gradients();
  inputs.forward().sum().backward();
  expect_same_bits(inputs.gradients(), found);
}

TEST(DeviceContentsWithoutKernels, NothingIsCompared) {
  EXPECT_EQ(error_of_step([](Inputs& inputs) { inputs.x.data().zero_(); }), "");
}

TEST(DeviceContentsWithoutPinnedMemory, NothingIsCompared) {
  const KernelsOfDevice kernels;
  const AsynchronousDevice mode;
  const NoPinnedMemory none;
  EXPECT_EQ(error_of_step([](Inputs& inputs) { inputs.x.data().zero_(); }), "");
}

}  // namespace
}  // namespace gradrecomp::test
