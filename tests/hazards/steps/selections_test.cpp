// Conformance H13: selections by patterns that not all sequences have ops for.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/steps/budget.h"
#include "support/messages.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;

TEST(Selection, H13ThatALaterSequenceDoesNotHaveIsAWarning) {
  const WarningLog log;
  nn::Linear a(8, 8);
  Options options = kBudget;
  options.selection.keep_ops = {"aten::gelu"};
  Region region(options);
  for (int step = 0; step < 7; ++step) {
    a->zero_grad();
    const auto y = region.run([&] {
      auto h = a(torch::randn({4, 8}));
      if (step < 2) h = torch::gelu(h);
      return h.tanh();
    });
    EXPECT_NO_THROW(y.sum().backward()) << "step " << step;
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_THAT(log.text(), HasSubstr("Options::selection"));
}

// What is added is overwritten before backward, so the sum must be kept by each plan.
TEST(Selection, H13ThatContradictsItselfInALaterSequenceStillKeeps) {
  const WarningLog log;
  const auto weight = torch::randn({8}).requires_grad_();
  weight.mutable_grad() = torch::zeros({8});
  Options options;
  options.policy = plan::Policy("drop_all");
  options.selection.keep_ops = {"aten::add", "aten::tanh"};
  options.selection.drop_stages = {"late"};
  Region region(options);
  int num_followed = 0;
  for (int step = 0; step < 8; ++step) {
    auto x = torch::randn({4, 8});
    const auto y = region.run([&] {
      auto h = (x + weight).sin().tanh();
      begin_stage("late");
      if (step >= 3) h = h.exp().tanh();
      return h.cos();
    });
    const bool followed_plan = region.last_step().followed_plan;
    num_followed += followed_plan ? 1 : 0;
    if (followed_plan) x.zero_();
    EXPECT_NO_THROW(y.sum().backward()) << "step " << step;
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_GE(num_followed, 4);
  EXPECT_THAT(log.text(), HasSubstr("to keep and to drop the same value"));
}

TEST(Selection, H13ThatTheFirstSequenceDoesNotHaveIsAnError) {
  Options options = kBudget;
  options.selection.keep_ops = {"aten::misspelled"};
  Region region(options);
  const auto y = region.run([] { return torch::ones({2}).requires_grad_().exp().sin(); });
  try {
    y.sum().backward();
    ADD_FAILURE() << "not found";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Options::selection: keep_ops is \"aten::misspelled\""));
  }
}

}  // namespace
}  // namespace gradrecomp::test
