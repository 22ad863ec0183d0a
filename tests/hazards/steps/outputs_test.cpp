// Conformance H10: how what a region makes gets out of it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "gradrecomp/region.h"
#include "hazards/steps/budget.h"
#include "hazards/steps/layers.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

TEST(Outputs, H10CapturedOnesAreAsGoodAsReturnedOnes) {
  auto model = layers(6, 64);
  for (const bool scope : {false, true}) {
    Region region(kBudget);
    for (int step = 0; step < 3; ++step) {
      at::Tensor y;
      const auto x = torch::randn({512, 64});
      if (scope) {
        auto open = region.open();
        y = model->forward(x);
        open.close();
      } else {
        region.run([&] { y = model->forward(x); });
      }
      model->zero_grad();
      y.sum().backward();
    }
    EXPECT_TRUE(region.has_plan());
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    EXPECT_GT(region.last_step().num_replayed_ops, 0);
  }
}

struct Outputs {
  at::Tensor a;
  std::map<std::string, at::Tensor> more;
  c10::IValue value;
};

TEST(Outputs, H10OfAnyTypeAreReturned) {
  auto model = layers(4);
  Region region(kBudget);
  for (int step = 0; step < 3; ++step) {
    model->zero_grad();
    auto outputs = region.run([&] {
      const auto y = model->forward(torch::randn({8, 24}));
      return Outputs{y, {{"sine", y.sin()}}, c10::IValue(y.exp())};
    });
    auto packed = region.run([&] {
      const auto y = model->forward(torch::randn({3, 2, 24}));
      return nn::utils::rnn::pack_padded_sequence(y, torch::tensor({3, 2}));
    });
    (outputs.a + outputs.more["sine"] + outputs.value.toTensor()).sum().backward();
    packed.data().sum().backward();
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_TRUE(region.last_step().followed_plan);
}

}  // namespace
}  // namespace gradrecomp::test
