// Conformance M5 to M8, M11, M12, R5: what stays in memory between and after steps.
#include "gradrecomp/checkpoint.h"
#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/models/resnet.h"
#include "support/live_memory.h"
#include "support/training.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

class Memory : public LiveMemory {};

TEST_F(Memory, M5DroppingTheOutputReturnsLiveBytesToTheStart) {
  const auto x = leaf_with_gradient({64, 64});
  const auto plain = retained_by([&] { return sine_chain(x).sum(); });
  for (const char* policy : {"drop_all", "keep_all"}) {
    Region region({.policy = policy});
    region.run([&] { return sine_chain(x).sum(); }).backward();
    const auto start = live_bytes();
    for (int i = 0; i < 3; ++i) {
      const auto retained =
          retained_by([&] { return region.run([&] { return sine_chain(x).sum(); }); });
      EXPECT_EQ(retained, region.plan().policy == "keep_all" ? plain : 0);
      EXPECT_EQ(live_bytes(), start);
    }
  }
}

TEST_F(Memory, M5ProfiledStepWithoutBackwardLeavesNothing) {
  const auto x = leaf_with_gradient({64, 64});
  const auto start = live_bytes();
  for (int i = 0; i < 3; ++i) {
    Region region({.policy = "drop_all"});
    region.run([&] { return sine_chain(x).sum(); });
    EXPECT_TRUE(region.last_step().profiled);
    EXPECT_EQ(live_bytes(), start);
  }
}

TEST_F(Memory, M6LiveBytesStayFlatOverManySteps) {
  nn::Sequential model(nn::Linear(8, 8), nn::GELU(), nn::Linear(8, 8), nn::Tanh());
  preallocate_gradients(*model);
  CheckpointedSequential net(model, {.policy = "drop_all"});
  std::int64_t flat = 0;
  for (int step = 0; step < 1000; ++step) {
    net->forward(torch::ones({4, 8})).sum().backward();
    const auto live = live_bytes();
    if (step == 2) flat = live;
    if (step > 2) {
      ASSERT_EQ(live, flat) << "step " << step;
    }
  }
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
}

TEST_F(Memory, M7BackwardThatThrowsLeavesNothingBehind) {
  const auto x = leaf_with_gradient({32, 32});
  Region region({.policy = "drop_all"});
  bool fail = false;
  const auto step = [&] {
    return peak_of([&] {
      return region
          .run([&] {
            auto y = x.sin().exp();
            y.register_hook([&](at::Tensor gradient) {
              TORCH_CHECK(!fail, "a user's hook fails");
              return gradient;
            });
            return y.cos().tanh();
          })
          .sum();
    });
  };
  step();
  const auto start = live_bytes();
  const auto first = step();
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  fail = true;
  EXPECT_THROW(step(), c10::Error);
  fail = false;
  EXPECT_EQ(live_bytes(), start);
  EXPECT_EQ(step(), first);
}

TEST_F(Memory, M8NoGradRecordsAndRetainsNothing) {
  auto x = torch::randn({64}).requires_grad_();
  Region region({.policy = "drop_all"});
  const torch::NoGradGuard no_grad;
  const auto start = live_bytes();
  const auto y = region.run([&] {
    EXPECT_EQ(tape::Recorder::current(), nullptr);
    return x.sin().cos();
  });
  EXPECT_EQ(live_bytes() - start, 256);
  EXPECT_EQ(region.last_step().num_ops, 0);
}

TEST_F(Memory, M8EvalModeRecordsNothing) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh());
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  net->eval();
  const auto y = net->forward(torch::randn({2, 4}));
  EXPECT_EQ(net->region().last_step().num_ops, 0);
  EXPECT_TRUE(y.requires_grad());
}

TEST_F(Memory, M11ViewsOfOneStorageAreCountedOnce) {
  auto x = torch::randn({256}).requires_grad_();
  Region region({.policy = "keep_all"});
  const auto step = [&] {
    auto y = region.run([&] {
      const auto base = x.exp();
      return base.slice(0, 0, 128).sin().sum() + base.slice(0, 128, 256).sin().sum();
    });
    const auto tape_bytes = region.has_plan() ? region.graph() : plan::Graph{};
    y.backward();
    return tape_bytes;
  };
  step();
  const auto graph = step();
  std::int64_t saved = 0;
  for (const auto& value : graph.values) saved += value.saved ? value.bytes : 0;
  EXPECT_EQ(saved, 256 * 4) << "exp's output, which both slices and exp itself save";
}

TEST_F(Memory, M12ManyTapesAliveAtOnce) {
  const auto x = leaf_with_gradient({128});
  const auto start = live_bytes();
  Region region({.policy = "drop_all"});
  region.run([&] { return sine_chain(x).sum(); }).backward();
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 20; ++i) losses.push_back(region.run([&] { return sine_chain(x).sum(); }));
  EXPECT_EQ(live_bytes() - start, 20 * 4) << "the losses only";
  for (auto& loss : losses) loss.backward();
  EXPECT_EQ(region.last_step().num_replayed_ops, 5);
  losses.clear();
  EXPECT_EQ(live_bytes(), start);
}

TEST_F(Memory, DropAllLeavesUnderThreePercentAliveAfterForward) {
  torch::manual_seed(1);
  auto model = models::resnet50(10);
  const auto images = torch::randn({2, 3, 64, 64});
  const auto plain = retained_by([&] { return model->forward(images).sum(); });
  const auto dropped = retained_by(
      [&] { return detail::run_dropped([&] { return model->forward(images).sum(); }); });
  EXPECT_LT(dropped, plain * 3 / 100);
}

TEST_F(Memory, R5ChainOfTwentyThousandDroppedOps) {
  auto x = torch::randn({2}).requires_grad_();
  const auto body = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = y.sin();
    return y.sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  detail::run_dropped(body).backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST_F(Memory, R5TwoThousandRegions) {
  auto x = torch::randn({3}).requires_grad_();
  at::Tensor y = x;
  for (int i = 0; i < 2000; ++i) y = checkpoint([](at::Tensor z) { return z.sin().cos(); }, y);
  y.sum().backward();
  const auto wrapped = std::exchange(x.mutable_grad(), at::Tensor());
  y = x;
  for (int i = 0; i < 2000; ++i) y = y.sin().cos();
  y.sum().backward();
  EXPECT_TRUE(same_bits(wrapped, x.grad()));
}

}  // namespace
}  // namespace gradrecomp::test
