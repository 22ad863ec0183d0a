// What regions report of their steps, and why a step followed no plan.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>

#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/region.h"
#include "gradrecomp/report.h"
#include "hazards/steps/budget.h"
#include "hazards/steps/layers.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

TEST(Reports, AreNotOfAStepThatEndsLate) {
  auto x = torch::randn({8}).requires_grad_();
  Region region(kBudget);
  auto early = std::make_unique<OpenStep>(region.open());
  static_cast<void>(x.exp());
  std::thread([&] {
    region.run([&] { return x.exp().sin(); }).sum().backward();
    early.reset();
  }).join();
  begin_stage("whatever");  // here the early step is given up
  EXPECT_EQ(region.last_step().num_ops, 2);
}

TEST(Reports, AreOfOneStepThoughAnotherGoesBackward) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto body = [&] { return x.exp().sin(); };
  for (int step = 0; step < 2; ++step) {
    x.mutable_grad() = at::Tensor();
    region.run(body).sum().backward();
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  x.mutable_grad() = at::Tensor();
  const auto y = region.run(body);
  {
    const torch::NoGradGuard no_grad;
    region.run(body);
  }
  y.sum().backward();
  EXPECT_EQ(region.last_step().num_replayed_ops, 0);
}

TEST(Reports, NameTheFirstStageOfEverySequence) {
  CheckpointedSequential net(layers(2), Options{.policy = "drop_all"});
  for (const std::int64_t batch : {4, 4, 8}) {
    net->zero_grad();
    net->forward(torch::randn({batch, 24})).sum().backward();
    EXPECT_EQ(net->region().graph().stages.front().name, "0");
    EXPECT_EQ(net->region().graph().stages.size(), 4);
  }
  EXPECT_EQ(net->region().num_plans(), 2);
}

TEST(Reports, CountWhatRunsBeforeTheFirstStageForNone) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  region
      .run([&] {
        const auto y = x.exp();
        begin_stage("sine");
        return y.sin();
      })
      .sum()
      .backward();
  const auto rows = stage_rows(region.graph(), region.plan());
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[1].name, "sine");
  EXPECT_GT(rows[0].saved_bytes, 0);
}

TEST(Reasons, AreSaidOfEachStepThatFollowsNoPlan) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto body = [&] { return x.exp().sin(); };
  region.run(body).sum().backward();
  EXPECT_THAT(region.last_step().reason, HasSubstr("profiled"));
  x.mutable_grad() = at::Tensor();
  region.run(body).sum().backward();
  EXPECT_EQ(region.last_step().reason, "");
  {
    const torch::NoGradGuard no_grad;
    region.run(body);
  }
  EXPECT_THAT(region.last_step().reason, HasSubstr("gradients are off"));
  detail::run_dropped([&] { return region.run(body); });
  EXPECT_THAT(region.last_step().reason, HasSubstr("around it covers it"));
  EXPECT_THAT(region.brief_report(), HasSubstr("around it covers it"));
  x.mutable_grad() = at::Tensor();
  region.run([&] { return x.exp().sin().cos(); });
  EXPECT_THAT(region.last_step().reason, HasSubstr("is new"));
  Region empty;
  empty.run([&] { return x; });
  EXPECT_THAT(empty.last_step().reason, HasSubstr("no operator"));
  for (int step = 0; step < 2; ++step) empty.run([&] { return x.detach() + 1; });
  EXPECT_THAT(empty.last_step().reason, HasSubstr("nothing in it is saved"));
}

TEST(Reasons, AreSaidOfAStepThatIsGivenUpAndItsProfileIsMadeByTheNext) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  EXPECT_THROW(region.run([&]() -> at::Tensor {
    static_cast<void>(x.exp());
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
  auto step = region.open();
  static_cast<void>(x.exp());
  step = region.open();
  EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
}

TEST(Reasons, TellOfAnOpenStepOfTheSameRegion) {
  Region region({.policy = "drop_all"});
  const auto step = region.open();
  const auto another = region.open();
  EXPECT_THAT(region.last_step().reason, HasSubstr("close() it before"));
}

}  // namespace
}  // namespace gradrecomp::test
