// Conformance H12: backward passes inside of a region.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <utility>

#include "gradrecomp/region.h"
#include "hazards/steps/budget.h"
#include "hazards/steps/step_count.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(InnerBackward, H12WithNothingLeftForLaterIsSaidToo) {
  const WarningLog log;
  auto weight = torch::randn({8, 8}).requires_grad_();
  const auto x = torch::randn({4, 8});
  Region region(kBudget);
  for (int step = 0; step < 4; ++step) {
    weight.mutable_grad() = at::Tensor();
    region.run([&] { x.mm(weight).sin().sum().backward(); });
  }
  EXPECT_THAT(region.last_step().reason, HasSubstr("runs inside the region"));
  EXPECT_THAT(region.brief_report(), HasSubstr("no plan: it cannot be planned"));
  EXPECT_EQ(log.messages.size(), 1U) << log.text();
}

TEST(InnerBackward, H12IsProfiledOnceAndSaidOnce) {
  const WarningLog log;
  auto weight = torch::randn({8, 8}).requires_grad_();
  Region region(kBudget);
  Count count;
  for (int step = 0; step < 6; ++step) {
    weight.mutable_grad() = at::Tensor();
    region
        .run([&] {
          const auto x = torch::randn({4, 8}).requires_grad_();
          const auto y = x.mm(weight).tanh().exp();
          const auto penalty = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
          return y.sum() + penalty.pow(2).sum();
        })
        .backward();
    count.add(region.last_step());
    SCOPED_TRACE(region.last_step().reason);
  }
  EXPECT_EQ(count.profiled, 1);
  EXPECT_THAT(region.last_step().reason, HasSubstr("cannot be planned"));
  EXPECT_THAT(region.brief_report(), HasSubstr("cannot be planned"));
  EXPECT_EQ(log.messages.size(), 1U) << log.text();
  EXPECT_THAT(log.text(), HasSubstr("runs inside the region"));
  EXPECT_THAT(log.text(), Not(HasSubstr("GradRecomp bug")));
}

TEST(InnerBackward, H12IsExact) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto data = torch::randn({4, 8});
      const auto loss = run([&] {
        const auto x = data.clone().requires_grad_();
        const auto y = x.mm(weight).tanh().exp();
        const auto penalty = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
        return y.sum() + penalty.pow(2).sum();
      });
      loss.backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  });
}

// What it made again is let go of by the first loss, and read again for the second.
TEST(InnerBackward, H12LeavesWhatItReplayedReplayable) {
  const auto losses = [](const at::Tensor& x) {
    const auto branches = [&] {
      const auto t = x.tanh();
      return Tensors{t * 1, x * t.detach().exp()};
    }();
    torch::autograd::grad({branches[0].sum()}, {x}, {}, /*retain_graph=*/true);
    return branches;
  };
  const auto gradient = [&](bool wrapped) {
    const auto x = torch::linspace(-1, 1, 8).requires_grad_();
    const auto made = wrapped ? detail::run_dropped([&] { return losses(x); }) : losses(x);
    for (const auto& loss : made) loss.sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(same_bits(gradient(false), gradient(true)));
}

}  // namespace
}  // namespace gradrecomp::test
