// Plans made elsewhere: obeyed where they fit, refused where they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/plan/signature.h"
#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/plans.h"
#include "support/step_chain.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

// What a region with `options` learns in one step of the chain.
Region after_one_step(StepChain& chain, const Options& options) {
  Region region(options);
  chain.step(region);
  return region;
}

// What the last op of that name in `stage` makes.
plan::Index output_of(const plan::Graph& graph, const std::string& name, int stage) {
  plan::Index found = -1;
  for (const plan::Op& op : graph.ops) {
    if (op.name == name && graph.stages[op.stage].name == "stage" + std::to_string(stage)) {
      found = op.outputs.front();
    }
  }
  EXPECT_GE(found, 0) << name << " in stage " << stage;
  return found;
}

// Keeps nothing. The first sweep leaves every fourth boundary; from there each stage is made by a
// sweep of its own, which leaves nothing of the stages before.
plan::Plan nested_plan(const plan::Graph& graph) {
  plan::Plan plan{.policy = "nested", .signature = graph.signature};
  plan.keep.resize(graph.values.size(), 0);
  const auto boundary = [&](int stage) { return output_of(graph, "aten::add", stage); };
  for (int i = 0; i < StepChain::kNumStages; ++i) {
    const plan::Index scaled = output_of(graph, "aten::mul", i);
    plan.sweeps.push_back({output_of(graph, "aten::gelu", i), {scaled}});
  }
  plan.sweeps.push_back({boundary(StepChain::kNumStages - 1), {boundary(3), boundary(7)}});
  return plan;
}

class GivenPlan : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  StepChain chain_;
};

TEST_F(GivenPlan, IsFollowedWithFiguresPredictedAnew) {
  const Region maker = after_one_step(chain_, {.policy = "every_3"});
  auto given = maker.plan();
  given.predicted_peak_bytes = 1;
  given.num_replayed_ops = 1;
  Region region({.plan = shared(given)});
  chain_.step(region);
  EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_EQ(region.plan().keep, maker.plan().keep);
  EXPECT_EQ(region.plan().policy, "every_3");
  EXPECT_EQ(region.plan().predicted_peak_bytes, maker.plan().predicted_peak_bytes);
  EXPECT_EQ(region.last_step().num_replayed_ops, maker.plan().num_replayed_ops);
}

TEST_F(GivenPlan, WithSweepsIsExactInBitsBytesAndReplays) {
  const Region maker = after_one_step(chain_, {.policy = "drop_all"});
  const auto plain = chain_.gradients();
  Region region({.plan = shared(nested_plan(maker.graph()))});
  chain_.step(region);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    const auto gradients = chain_.gradients();
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], gradients[i]));
  }
  EXPECT_LT(region.plan().predicted_peak_bytes, maker.plan().predicted_peak_bytes);
  EXPECT_GT(region.plan().num_replayed_ops, 2 * maker.plan().num_replayed_ops);
}

TEST_F(GivenPlan, WhoseSweepsDoNotFitIsRefused) {
  const Region maker = after_one_step(chain_, {.policy = "drop_all"});
  auto given = maker.plan();
  given.sweeps = {{.target = static_cast<plan::Index>(given.keep.size())}};
  Region region({.plan = shared(given)});
  EXPECT_THROW(chain_.step(region), c10::ValueError);
  EXPECT_FALSE(region.has_plan());
}

TEST_F(GivenPlan, OfAnotherSequenceIsNamedOnceAndTheBudgetPlans) {
  auto given = after_one_step(chain_, {.policy = "drop_all"}).plan();
  const auto signature = given.signature++;
  const WarningLog log;
  Region region({.max_overhead = 0.1,
                 .plan = shared(given),
                 .verify = Verify::every_n_steps,
                 .verify_interval_steps = 1});
  chain_.step(region);
  chain_.step(region);
  EXPECT_EQ(region.plan().policy, "max_overhead");
  ASSERT_EQ(log.messages.size(), 1U);
  EXPECT_THAT(log.messages[0], HasSubstr(plan::signature_text(signature)));
  EXPECT_THAT(log.messages[0], HasSubstr(plan::signature_text(signature + 1)));
}

TEST_F(GivenPlan, ThatDoesNotFitItsSequenceIsRefused) {
  auto given = after_one_step(chain_, {.policy = "drop_all"}).plan();
  given.keep.push_back(1);
  Region region({.plan = shared(given)});
  try {
    chain_.step(region);
    FAIL() << "no exception";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Options::plan does not fit"));
    EXPECT_THAT(error.what(), HasSubstr("keep.size() is"));
  }
  EXPECT_FALSE(region.has_plan());
}

}  // namespace
}  // namespace gradrecomp::test
