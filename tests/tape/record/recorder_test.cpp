#include "tape/record/recorder.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/training.h"
#include "tape/versions.h"

namespace gradrecomp::tape {
namespace {

using test::same_bits;

std::shared_ptr<const Retentions> nothing() { return std::make_shared<const Retentions>(); }

// Records `body` with everything dropped and seals the tape.
std::shared_ptr<Tape> record(const std::function<void()>& body) {
  auto tape = std::make_shared<Tape>();
  {
    const Recorder recorder(tape, {nullptr, nothing()});
    body();
  }
  tape->seal();
  return tape;
}

std::vector<std::string> names(const Tape& tape) {
  std::vector<std::string> all;
  for (const Op& op : tape.ops()) all.push_back(op.name());
  return all;
}

at::Tensor leaf(std::vector<std::int64_t> sizes) { return torch::randn(sizes).requires_grad_(); }

TEST(Recorder, RecordsNothingOutsideItsLifetime) {
  auto x = leaf({4});
  auto tape = record([&] { x.exp(); });
  x.sin();
  EXPECT_EQ(names(*tape), std::vector<std::string>{"aten::exp"});
  EXPECT_EQ(Recorder::current(), nullptr);
}

TEST(Recorder, ViewsAreNoOpsAndNoValues) {
  auto x = leaf({4, 4});
  auto tape = record([&] { x.t().slice(0, 1, 3).unsqueeze(0).expand({5, 2, 4}).exp(); });
  EXPECT_EQ(names(*tape), std::vector<std::string>{"aten::exp"});
  ASSERT_EQ(tape->values().size(), 2U);
  EXPECT_TRUE(tape->values()[0].external);
}

TEST(Recorder, InPlaceWriteMakesANewVersionOfTheSameStorage) {
  auto x = leaf({4});
  auto tape = record([&] {
    auto y = x.exp();
    y.mul_(2);
    y.slice(0, 0, 2).add_(1);
  });
  ASSERT_EQ(tape->ops().size(), 3U);
  const ValueId exp = tape->ops()[0].results[0].value;
  const ValueId last = last_version(*tape, exp);
  EXPECT_EQ(last, tape->ops()[2].results[0].value);
  EXPECT_EQ(tape->values()[tape->ops()[1].results[0].value].overwrites, exp);
}

TEST(Recorder, HandlesFollowTheLastVersion) {
  auto x = leaf({4});
  at::Tensor y;
  auto tape = record([&] {
    y = x.exp();
    y = torch::relu_(y);
  });
  const ValueId exp = tape->ops()[0].results[0].value;
  EXPECT_EQ(tape->values()[exp].num_handles, 0);
  EXPECT_GT(tape->values()[last_version(*tape, exp)].num_handles, 0);
}

TEST(Recorder, ExternalWrittenInPlaceIsSnapshotOnlyIfSomethingReadIt) {
  auto buffer = torch::ones({4});
  auto counter = torch::zeros({1});
  auto x = leaf({4});
  at::Tensor y;
  auto tape = record([&] {
    y = (x * buffer).sin().sum();
    const torch::NoGradGuard no_grad;
    // .data has a version counter of its own, so plain training allows this.
    buffer.variable_data().add_(5);
    counter.add_(1);
  });
  std::int64_t num_snapshots = 0;
  for (const Value& value : tape->values()) num_snapshots += value.snapshot;
  EXPECT_EQ(num_snapshots, 1) << "the buffer, but not the counter, which was not read";
}

TEST(Recorder, BatchNormDoesNotReadItsRunningStatisticsWhileTraining) {
  torch::nn::BatchNorm1d norm(3);
  auto x = leaf({5, 3});
  auto tape = record([&] { norm->forward(x); });
  for (const Op& op : tape->ops()) {
    if (std::string(op.name()) != "aten::native_batch_norm") continue;
    for (const Read& read : op.reads) {
      EXPECT_LT(read.argument, 3) << "input, weight and bias come before the running statistics";
    }
    return;
  }
  FAIL() << "no BatchNorm was recorded";
}

TEST(Recorder, RandomStateIsKeptOnlyForOpsThatDraw) {
  auto x = leaf({2, 2, 4, 4});
  auto tape = record([&] {
    at::scaled_dot_product_attention(x, x, x);
    torch::dropout(x, 0.5, true).sin().sum();
  });
  std::int64_t num_with_state = 0;
  std::int64_t num_seeded = 0;
  for (const Op& op : tape->ops()) {
    num_with_state += op.rng != nullptr;
    num_seeded += op.handle().hasTag(at::Tag::nondeterministic_seeded);
  }
  EXPECT_GE(num_seeded, 2) << "attention carries the tag although it draws nothing here";
  EXPECT_LE(num_with_state, 1);
}

TEST(Recorder, SealForgetsTheArgumentsOfOpsNobodyNeeds) {
  auto x = leaf({4});
  at::Tensor y;
  auto tape = record([&] { y = x + 1; });
  ASSERT_EQ(tape->ops().size(), 1U);
  EXPECT_TRUE(tape->ops()[0].arguments.empty());
}

TEST(Recorder, ListsOfTensorsAndUndefinedTensorsAreReplayed) {
  auto x = leaf({4, 3});
  const auto body = [&] {
    const c10::List<std::optional<at::Tensor>> indices(
        {std::optional<at::Tensor>(), std::optional<at::Tensor>(torch::tensor({2, 0}))});
    auto picked =
        torch::cat({x.exp(), x.sin()}).index({torch::indexing::Slice(), torch::tensor({2, 0})});
    return at::index(torch::stack({picked, picked.cos()}), indices).tanh().sum();
  };
  const auto plain = torch::autograd::grad({body()}, {x})[0];
  at::Tensor y;
  auto tape = record([&] { y = body(); });
  EXPECT_TRUE(same_bits(plain, torch::autograd::grad({y}, {x})[0]));
  EXPECT_GT(tape->counts().replayed_ops, 0);
}

TEST(Recorder, TapeIsGoneWhenItsGraphIsGone) {
  auto x = leaf({4});
  at::Tensor y;
  std::weak_ptr<Tape> weak;
  {
    auto tape = record([&] { y = x.exp().sin(); });
    weak = tape;
  }
  EXPECT_FALSE(weak.expired()) << "the graph's handles hold it";
  y = at::Tensor();
  EXPECT_TRUE(weak.expired());
}

TEST(Recorder, APlanIsLeftAtTheFirstCallItDidNotForesee) {
  auto x = leaf({4});
  auto first = std::make_shared<Tape>();
  std::shared_ptr<const std::vector<std::uint64_t>> sequence;
  {
    const Recorder recorder(first, {nullptr, nothing()});
    x.exp().sin();
    sequence = std::make_shared<const std::vector<std::uint64_t>>(recorder.plan().sequence());
  }
  std::vector<std::size_t> left_at;
  auto second = std::make_shared<Tape>();
  const Recorder recorder(second, {sequence, nothing()}, [&](std::size_t call, std::uint64_t) {
    left_at.push_back(call);
    return RecordingPlan{};
  });
  x.exp().cos();
  EXPECT_EQ(left_at, std::vector<std::size_t>{1});
  EXPECT_FALSE(recorder.plan().is_followed_to_the_end());
  EXPECT_TRUE(recorder.in_window_mode());
}

TEST(Recorder, ReplayCostIsThatOfWhatIsReplayed) {
  auto x = leaf({4});
  auto keep = std::make_shared<Retentions>(2002, Retention::keep);
  (*keep)[1000] = Retention::drop;
  auto tape = std::make_shared<Tape>();
  at::Tensor y = x;
  {
    const Recorder recorder(tape, {nullptr, keep});
    for (int i = 0; i < 2000; ++i) y = y.sin();
  }
  tape->seal();
  y.sum().backward();
  EXPECT_EQ(tape->counts().replayed_ops, 1);
}

}  // namespace
}  // namespace gradrecomp::tape
