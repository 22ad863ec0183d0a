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
