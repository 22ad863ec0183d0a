// Conformance R2, R3: what a replay would not make again is found, kept and named.
#include "tape/replay/verification.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>

#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/models/resnet.h"
#include "support/messages.h"
#include "support/modes.h"
#include "support/own_operator.h"
#include "support/scarce_memory.h"
#include "support/training.h"
#include "tape/own_work.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;

// Replays differ: every call returns another number.
at::Tensor counting_op(const at::Tensor& x) {
  static std::atomic<int> calls{0};
  return x + ++calls;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("counting(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("counting", counting_op);
}

at::Tensor counting(const at::Tensor& x) { return OwnOperator::apply(x, "counting"); }

// As the first verification finds no memory to run in.
at::Tensor scarce_op(const at::Tensor& x) {
  static std::atomic<int> verifications{0};
  const bool lacks = tape::in_own_work() && verifications++ == 0;
  TORCH_CHECK_WITH(OutOfMemoryError, !lacks, "out of memory");
  return x * 2;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("scarce(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("scarce", scarce_op);
}

TEST(Robustness, R2WhatThereWasNoMemoryToVerifyIsKeptInThatStepAlone) {
  const WarningLog log;
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] { return OwnOperator::apply(x.exp(), "scarce").sin().tanh().sum(); };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 4; ++step) {
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor()))) << "step " << step;
    EXPECT_EQ(region.last_step().profiled, step < 2) << "step " << step;
  }
  EXPECT_TRUE(log.messages.empty()) << log.text();
  EXPECT_EQ(std::ranges::count(region.graph().values, true, &plan::Value::must_keep), 0);
}

// As the seeds that attention without dropout gives backward, and which are never read.
at::Tensor unset_op(const at::Tensor& x) {
  static std::atomic<int> calls{0};
  return at::full_like(x, ++calls);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("unset(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("unset", unset_op);
}

TEST(Robustness, R3SeedsThatNobodySetsAreKeptWithoutAWord) {
  const WarningLog log;
  const auto step = [](std::int64_t size) {
    const auto x = torch::randn({size}).requires_grad_();
    Region region({.policy = "drop_all"});
    region.run([&] { return OwnOperator::apply(x.exp(), "unset").sin().sum(); }).backward();
    const auto& values = region.graph().values;
    return std::ranges::count(values, true, &plan::Value::must_keep);
  };
  EXPECT_EQ(step(16), 1);  // of 64 bytes
  EXPECT_TRUE(log.messages.empty()) << log.text();
  EXPECT_EQ(step(17), 1);
  EXPECT_THAT(log.text(), HasSubstr("gradrecomp_test::unset"));
}

TEST(Robustness, R2RawWriteInsideTheRegionIsFoundAndKept) {
  const WarningLog log;
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    auto y = x.exp();
    y.data_ptr<float>()[0] = 42;  // unannounced
    return y.sin().sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor()))) << "step " << step;
  }
  EXPECT_THAT(log.text(), HasSubstr("aten::exp"));
}

TEST(Robustness, R2RawWriteIsNamedOnce) {
  const WarningLog log;
  auto x = torch::randn({8}).requires_grad_();
  for (int repeat = 0; repeat < 3; ++repeat) {
    Region region({.policy = "drop_all"});
    region
        .run([&] {
          auto y = x.erf();
          y.data_ptr<float>()[0] = 42;
          return y.sin().sum();
        })
        .backward();
  }
  EXPECT_EQ(log.messages.size(), 1U);
  EXPECT_THAT(log.text(), HasSubstr("aten::erf"));
}

TEST(Robustness, R2EmptyFilledByARawKernelIsNeverDropped) {
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    auto noise = torch::empty({8});
    for (int i = 0; i < 8; ++i) noise.data_ptr<float>()[i] = static_cast<float>(i);
    return (x * noise).sin().sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  detail::run_dropped(body).backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R3OpWhoseReplayDiffersIsFoundKeptAndNamedOnce) {
  const WarningLog log;
  auto x = torch::zeros({4}).requires_grad_();
  Region region({.policy = "drop_all"});
  std::string first_step;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) first_step = log.text();
    at::Tensor seen;
    auto y = region.run([&] {
      auto counted = counting(x);
      seen = counted.detach().clone();
      return counted.exp().sum();
    });
    y.backward();
    EXPECT_TRUE(same_bits(x.grad(), seen.exp())) << "step " << step;
    x.mutable_grad() = at::Tensor();
  }
  EXPECT_THAT(first_step, HasSubstr("gradrecomp_test::counting"));
  EXPECT_EQ(log.text(), first_step) << "named again in a later step";
}

TEST(Verification, ComesAgainEveryNSteps) {
  auto x = torch::randn({4}).requires_grad_();
  Region region(
      {.policy = "drop_all", .verify = Verify::every_n_steps, .verify_interval_steps = 3});
  std::vector<bool> profiled;
  for (int step = 0; step < 7; ++step) {
    region.run([&] { return x.exp().sin().sum(); }).backward();
    x.mutable_grad() = at::Tensor();
    profiled.push_back(region.last_step().profiled);
  }
  EXPECT_EQ(profiled, (std::vector<bool>{true, false, false, true, false, false, true}));
}

TEST(Verification, ThatIsOffReplaysNothingTwice) {
  auto x = torch::zeros({4}).requires_grad_();
  const WarningLog log;
  Region region({.policy = "keep_all", .verify = Verify::never});
  const auto before = counting(torch::zeros({1})).item<float>();
  for (int step = 0; step < 2; ++step) {
    region.run([&] { return counting(x).sum(); }).backward();
  }
  EXPECT_EQ(counting(torch::zeros({1})).item<float>(), before + 3) << "calls of the op";
  EXPECT_EQ(log.text(), "");
}

// Whether an op's output must stay for good.
bool any_must_keep(const plan::Graph& graph) {
  return std::ranges::any_of(graph.values, [](const plan::Value& value) {
    return value.must_keep && value.producer >= 0;
  });
}

TEST(Verification, GoesBackForWhatAnInPlaceOpOfALaterStageOverwrote) {
  torch::manual_seed(1);
  // Statistics are counted in external memory, and what is written there must stay.
  const auto norm = nn::BatchNormOptions(4).track_running_stats(false);
  nn::Sequential model(nn::Conv2d(2, 4, 3), nn::BatchNorm2d(norm), nn::ReLU(nn::ReLUOptions(true)),
                       nn::Conv2d(4, 4, 3), nn::BatchNorm2d(norm), nn::ReLU(nn::ReLUOptions(true)));
  // Without substitutes, which hold statistics for good.
  CheckpointedSequential net(model, {.policy = "drop_all", .substitutes = false});
  net->forward(torch::randn({2, 2, 8, 8})).sum().backward();
  EXPECT_FALSE(any_must_keep(net->region().graph()));
}

TEST(Verification, GoesBackForWhatIsOverwrittenBehindTheEndOfAWindow) {
  auto x = torch::randn({8}).requires_grad_();
  // One byte: a window ends after every op, before the sum and the ReLU in place too.
  Region region({.policy = "drop_all", .window_bytes = 1});
  const auto body = [&] {
    auto y = x.exp().sin();
    const auto shortcut = (x * 2).tanh();
    y.add_(shortcut);
    return torch::relu_(y).cos().sum();
  };
  expect_same_step([&](const Wrap& wrap) { return torch::autograd::grad({one(wrap)(body)}, {x}); });
  region.run(body).backward();
  EXPECT_FALSE(any_must_keep(region.graph()));
}

TEST(Verification, LeavesNothingOfAResNetForGoodWhereverWindowsEnd) {
  auto model = models::resnet18(10);
  const auto images = torch::randn({2, 3, 32, 32});
  for (const std::int64_t window_bytes : {1 << 12, 1 << 16, 1 << 20}) {
    // Without substitutes, which hold statistics for good.
    Region region({.policy = "drop_all", .substitutes = false, .window_bytes = window_bytes});
    region.run([&] { return model->forward(images); }).sum().backward();
    for (const plan::Value& value : region.graph().values) {
      // A BatchNorm counts its batches in external memory.
      EXPECT_TRUE(!value.must_keep || value.producer < 0 || value.bytes == 8) << window_bytes;
    }
  }
}

TEST(Verification, FindsARawWriteBehindAnInPlaceOpOfALaterStage) {
  const WarningLog log;
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    begin_stage("first");
    auto y = x.exp() + 1;
    begin_stage("second");
    y.mul_(2);
    y.data_ptr<float>()[0] = 42;  // unannounced
    return y.sin().sum();
  };
  const auto plain = torch::autograd::grad({body()}, {x})[0];
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({region.run(body)}, {x})[0]));
  }
  EXPECT_THAT(log.text(), HasSubstr("aten::mul_"));
  EXPECT_TRUE(any_must_keep(region.graph()));
}

// Each allocation in turn finds none.
TEST(Verification, GoesOnWhereverMemoryEnds) {
  const auto x = torch::randn({4, 3, 8, 8});
  const auto weight = torch::randn({3}).requires_grad_();
  const auto body = [&] {
    const auto normal = at::native_batch_norm(x.sin(), weight, {}, {}, {}, true, 0.1, 1e-5);
    return (torch::relu(std::get<0>(normal) + x).mul(0.5) + 1).exp().sum();
  };
  const auto gradient = [&](const at::Tensor& y) {
    y.backward();
    return std::exchange(weight.mutable_grad(), at::Tensor());
  };
  const auto plain = gradient(body());
  bool failed = true;
  for (int failing = 1; failed; ++failing) {
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {});
      y = body();
    }
    int num_allocations = 0;
    {
      const ScarceMemory memory([&](std::size_t) { return ++num_allocations == failing; });
      tape::PatternFits fits;
      const auto end = static_cast<tape::OpId>(tape->ops().size());
      EXPECT_NO_THROW(tape::verify(*tape, 0, end, true, fits));
    }
    failed = num_allocations >= failing;
    EXPECT_EQ(tape->findings().verification_was_short, failed);
    tape->seal();
    EXPECT_TRUE(same_bits(plain, gradient(y))) << "allocation " << failing;
  }
}

// A mask is packed, so no call could make it where its kernel was given up.
TEST(Robustness, R2AStepIsRightWhicheverAllocationOfItsVerificationFails) {
  const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
  const auto x = torch::randn({16, 16});
  const auto body = [&] {
    torch::manual_seed(5);
    const auto dropped = torch::dropout(x.mm(weight), 0.5, true);
    return torch::dropout(dropped.sin().mm(weight), 0.25, true).sum();
  };
  body().backward();
  const auto plain = gradient_of(weight);
  bool failed = true;
  for (int failing = 1; failed; ++failing) {
    Region region({.policy = "drop_all"});
    int num_allocations = 0;
    at::Tensor y;
    {
      const ScarceMemory memory(
          [&](std::size_t) { return tape::in_own_work() && ++num_allocations == failing; });
      y = region.run(body);
    }
    failed = num_allocations >= failing;
    y.backward();
    EXPECT_TRUE(same_bits(plain, gradient_of(weight))) << "allocation " << failing;
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, gradient_of(weight))) << "after allocation " << failing;
  }
}

}  // namespace
}  // namespace gradrecomp::test
