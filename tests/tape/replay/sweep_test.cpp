// What replay sweeps leave behind, with and without a plan for them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/training.h"
#include "tape/observer.h"
#include "tape/record/recorder.h"
#include "tape/replay/replayer.h"

namespace gradrecomp::tape {
namespace {

using test::same_bits;

// Records `body` with everything dropped and with `plans` for its sweeps, and seals the tape.
std::shared_ptr<Tape> record(std::vector<plan::Sweep> plans, const std::function<void()>& body) {
  auto tape = std::make_shared<Tape>();
  {
    const auto nothing = std::make_shared<const Retentions>();
    const Recorder recorder(
        tape,
        {nullptr, nothing, std::make_shared<const std::vector<plan::Sweep>>(std::move(plans))});
    body();
  }
  tape->seal();
  return tape;
}

std::vector<ValueId> ids_held(const Tape& tape, Hold kind) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < tape.values().size(); ++i) {
    if (tape.values()[i].hold == kind) ids.push_back(static_cast<ValueId>(i));
  }
  return ids;
}

using Ids = std::vector<ValueId>;

// What the tape holds of its replays, seen once the backward of a sine is done.
struct Holds {
  Ids cached;
  Ids listed;
  bool operator==(const Holds&) const = default;
};

// The number of replayed ops wherever a replay begins or ends.
struct ReplayLog final : Observer {
  void op_begins(const Tape& /*tape*/) override {}
  void op_ends(const Tape& /*tape*/, OpId /*op*/) override {}
  void took_in(const Tape& /*tape*/, OpId /*op*/) override {}
  void saved(const Tape& /*tape*/, ValueId /*value*/, c10::ScalarType /*type*/) override {}
  void sealed(const Tape& /*tape*/) override {}
  void demanded(const Tape& /*tape*/, ValueId /*value*/) override {}
  void replay_begins(const Tape& tape) override { begins.push_back(tape.counts().replayed_ops); }
  void replay_ends(const Tape& tape) override { ends.push_back(tape.counts().replayed_ops); }
  void releases(const Tape& /*tape*/, ValueId /*value*/) override {}

  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> ends;
};

// y_i = sin(y_(i-1)), value i. Every sine saves its input; y_6 stays with the program.
class SineChain : public ::testing::Test {
 protected:
  at::Tensor forward() {
    at::Tensor y = x_;
    for (int i = 0; i < 6; ++i) {
      y = y.sin();
      y.register_hook([this](at::Tensor gradient) {
        if (tape_)
          holds_.push_back({ids_held(*tape_, Hold::cached), ids_held(*tape_, Hold::listed)});
        return gradient;
      });
    }
    return y;
  }

  at::Tensor gradient(const at::Tensor& y, bool retain_graph = false) {
    x_.mutable_grad() = at::Tensor();
    y.backward(torch::ones_like(y), retain_graph);
    return x_.grad().clone();
  }

  at::Tensor x_ = torch::randn({8}).requires_grad_();
  std::shared_ptr<Tape> tape_;
  std::vector<Holds> holds_;
};

TEST_F(SineChain, WithoutAPlanIsMadeOnceAndCached) {
  const auto plain = gradient(forward());
  at::Tensor y;
  tape_ = record({}, [&] { y = forward(); });
  EXPECT_TRUE(same_bits(plain, gradient(y)));
  EXPECT_EQ(tape_->counts().replayed_ops, 5);
  EXPECT_EQ(holds_[1], (Holds{{1, 2, 3, 4}, {}})) << "after the backward of the last sine";
}

TEST_F(SineChain, IsMadeAgainWhereASweepDoesNotCacheIt) {
  const auto plain = gradient(forward());
  at::Tensor y;
  tape_ = record({{.target = 5, .cached = {2}}}, [&] { y = forward(); });
  EXPECT_TRUE(same_bits(plain, gradient(y)));
  // y_1 to y_5; then y_3 and y_4 from the y_2 left behind; then y_1.
  EXPECT_EQ(tape_->counts().replayed_ops, 5 + 2 + 1);
  // One entry after the backward of each sine, the last one's second.
  const std::vector<Holds> expected = {{}, {{}, {2}}, {{3}, {2}}, {{}, {2}}, {}, {}};
  EXPECT_EQ(holds_, expected);
}

TEST_F(SineChain, TellsAnObserverWhereReplaysBeginAndEnd) {
  at::Tensor y;
  tape_ = record({{.target = 5, .cached = {2}}}, [&] { y = forward(); });
  const auto log = std::make_shared<ReplayLog>();
  tape_->observe(log);
  gradient(y);
  EXPECT_EQ(log->begins, (std::vector<std::int64_t>{0, 5, 7}));
  EXPECT_EQ(log->ends, (std::vector<std::int64_t>{5, 7, 8}));
}

TEST_F(SineChain, IsTheSameInEveryBackwardOfARetainedGraph) {
  const auto plain = gradient(forward());
  at::Tensor y;
  tape_ = record({{.target = 4, .cached = {1}}, {.target = 5, .cached = {2, 3}}},
                 [&] { y = forward(); });
  EXPECT_TRUE(same_bits(plain, gradient(y, true)));
  EXPECT_EQ(ids_held(*tape_, Hold::listed), (Ids{2, 3})) << "still wanted";
  Replayer(*tape_).drop_cached();
  EXPECT_EQ(ids_held(*tape_, Hold::listed), Ids{});
  EXPECT_TRUE(same_bits(plain, gradient(y)));
  EXPECT_EQ(ids_held(*tape_, Hold::listed), Ids{});
  EXPECT_EQ(ids_held(*tape_, Hold::cached), Ids{});
}

TEST(Sweep, HoldsAListedValueWithoutHandlesAsLongAsAReplayMayReadIt) {
  const auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    const auto boundary = x.sin() + x;
    const auto first = (boundary + 1).exp();
    return first + (boundary * 3).exp();
  };
  const auto plain = torch::autograd::grad({body().sum()}, {x})[0];
  for (const bool listed : {false, true}) {
    at::Tensor y;
    const auto unplanned = record({}, [&] { y = body(); });
    const ValueId boundary = unplanned->ops()[1].results[0].value;
    const ValueId last_exp = unplanned->ops()[5].results[0].value;
    std::vector<plan::Sweep> plans;
    if (listed) plans.push_back({last_exp, {boundary}});
    const auto tape = record(plans, [&] { y = body(); });
    tape->name_plan(std::make_shared<const std::string>("a plan"));
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({y.sum()}, {x})[0]));
    EXPECT_EQ(tape->counts().replayed_ops, listed ? 4 + 2 : 4 + 4);
    EXPECT_EQ(tape->values()[boundary].hold, Hold::none) << "its last reader is done";
    if (listed) continue;
    at::Tensor without_plan;
    const auto other = record({}, [&] { without_plan = body(); });
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({without_plan.sum()}, {x})[0]));
    EXPECT_EQ(other->counts().replayed_ops, 4 + 2) << "nobody has planned otherwise";
  }
}

TEST(Sweep, PassesOverOverwrittenAndMissingValuesOfAPlan) {
  const auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    auto y = x.sin();
    return torch::relu_(y).cos();
  };
  const auto plain = torch::autograd::grad({body().sum()}, {x})[0];
  at::Tensor y;
  const auto tape = record({{.target = 2, .cached = {1, 2, 99}}}, [&] { y = body(); });
  ASSERT_EQ(tape->values()[1].overwritten_by, 2);
  EXPECT_TRUE(same_bits(plain, torch::autograd::grad({y.sum()}, {x})[0]));
}

}  // namespace
}  // namespace gradrecomp::tape
