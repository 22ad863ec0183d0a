// Conformance H20: more op sequences than a region keeps plans of.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/steps/layers.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

TEST(Plans, H20BeyondTheMostAreMadeAgainWithoutAProfile) {
  auto model = layers(3);
  Region region({.policy = "drop_all", .max_plans = 2});
  int profiled = 0;
  for (int round = 0; round < 4; ++round) {
    for (const std::int64_t batch : {2, 3, 4, 5}) {
      model->zero_grad();
      region.run([&] { return model->forward(torch::randn({batch, 24})); }).sum().backward();
      profiled += region.last_step().profiled ? 1 : 0;
      if (round > 0) {
        EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
      }
      EXPECT_LE(region.num_plans(), 2);
    }
  }
  EXPECT_EQ(profiled, 4);
}

TEST(Plans, H9OfStepsThatRefillABufferByPointerAreFollowed) {
  for (const char* policy : {"drop_all", "every_1"}) {
    Region region({.policy = policy});
    const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    std::vector<at::Tensor> shards;
    for (int i = 0; i < 3; ++i) shards.push_back(torch::randn({16, 16}));
    auto buffer = torch::zeros({16, 16});
    int num_followed = 0;
    for (int step = 0; step < 12; ++step) {
      const auto x = torch::randn({4, 16});
      const auto body = [&] {
        auto h = x.mm(weight);
        for (const at::Tensor& shard : shards) {
          std::memcpy(buffer.data_ptr(), shard.data_ptr(), shard.nbytes());
          h = torch::tanh(h.mm(weight)) + buffer.sin().mean(0);
        }
        return h.exp();
      };
      body().sum().backward();
      const auto plain = std::exchange(weight.mutable_grad(), at::Tensor());
      region.run(body).sum().backward();
      EXPECT_TRUE(same_bits(plain, std::exchange(weight.mutable_grad(), at::Tensor())));
      num_followed += region.last_step().followed_plan ? 1 : 0;
    }
    EXPECT_GE(num_followed, 8) << policy << ": " << region.last_step().reason;
  }
}

}  // namespace
}  // namespace gradrecomp::test
