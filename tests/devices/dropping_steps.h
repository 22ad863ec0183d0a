#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "gradrecomp/region.h"
#include "support/training.h"

namespace gradrecomp::test {

/// Steps of a region that drops all it can; the gradient of each.
struct Steps {
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  explicit Steps(Forward forward) : forward_(std::move(forward)) {}

  at::Tensor plain(const at::Tensor& x) {
    forward_(x).sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  }
  at::Tensor step(const at::Tensor& x) {
    region.run([&] { return forward_(x); }).sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  }

  Region region{{.policy = "drop_all"}};

 private:
  Forward forward_;
};

/// How many ops of a planned step are replayed, with gradients that equal plain's.
inline std::int64_t replays_of(const Steps::Forward& forward, const at::Tensor& x) {
  Steps steps(forward);
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
  return steps.region.last_step().num_replayed_ops;
}

}  // namespace gradrecomp::test
