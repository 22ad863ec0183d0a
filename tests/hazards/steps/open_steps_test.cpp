// Conformance H10: steps from open() to close(), on whatever threads, or to no end.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/live_memory.h"
#include "support/messages.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

TEST(OpenStep, H10GivenUpOrClosedTwiceLeavesNothingBehind) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  {
    const auto given_up = region.open();
    static_cast<void>(x.sin());
  }
  auto step = region.open();
  const auto y = x.exp().sin();
  auto moved = std::move(step);
  moved.close();
  moved.close();
  step.close();
  const auto outside = x.cos();
  y.sum().backward();
  EXPECT_EQ(region.last_step().num_ops, 2);
}

// The engine gives a thread back the keys with which the pass began. Where another library had the
// key before the recorder, it may have left it on, and nothing is taken away.
TEST(OpenStep, H10ClosedByAHookLeavesNothingToTheThread) {
  constexpr auto kKey = c10::DispatchKey::Fake;
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto y = region.run([&] { return x.exp(); });
  if (!c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(kKey).empty()) return;
  std::optional<OpenStep> step;
  y.register_hook([&](const at::Tensor& gradient) {
    step.reset();
    return gradient;
  });
  step.emplace(region.open());
  y.sum().backward();
  static_cast<void>(x.cos());
  EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(kKey));
}

TEST(OpenStep, H10ThatAnotherThreadClosesStaysOpenWhereItWasOpened) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  auto step = region.open();
  const auto y = x.exp();
  std::string message;
  std::thread([&] { message = message_of([&] { step.close(); }); }).join();
  EXPECT_THAT(message, HasSubstr("on another thread"));
  const auto z = y.sin();
  step.close();
  EXPECT_EQ(region.last_step().num_ops, 2);
  z.sum().backward();
  EXPECT_TRUE(region.has_plan());
}

TEST(OpenStep, H10ThatAnotherThreadDestroysLeavesBothThreadsUnharmed) {
  at::Tensor gradient;
  std::thread([&] {
    auto x = torch::ones({8}).requires_grad_();
    Region region({.policy = "drop_all"});
    auto step = std::make_unique<OpenStep>(region.open());
    auto y = x.exp();
    std::thread([&] {
      Region other({.policy = "drop_all"});
      other
          .run([&] {
            step.reset();
            return torch::ones({2}).requires_grad_().exp().sin();
          })
          .sum()
          .backward();
      EXPECT_EQ(other.last_step().num_ops, 2 + 1);  // with ones()
    }).join();
    const auto z = y.sin();  // not recorded any more
    EXPECT_TRUE(region.run([&] { return x.cos(); }).defined());
    EXPECT_EQ(region.last_step().num_ops, 1);
    z.sum().backward();
    gradient = x.grad();
  }).join();
  EXPECT_TRUE(
      torch::allclose(gradient, torch::full({8}, std::exp(1.0F) * std::cos(std::exp(1.0F)))));
}

TEST(OpenStep, H10ThatOutlivesItsThreadIsGivenUp) {
  auto weight = torch::randn({64, 64}).requires_grad_();
  const auto x = torch::randn({64, 64});
  Region region({.policy = "drop_all"});
  install_cpu_counter();
  std::int64_t after_first = 0;
  for (int step = 0; step < 6; ++step) {
    {
      std::optional<OpenStep> open;
      at::Tensor y;
      std::thread([&] {
        open.emplace(region.open());
        y = x.mm(weight).tanh().exp();
      }).join();
      EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
      open.reset();
      y.sum().backward();
    }
    if (step == 0) after_first = live_bytes();
  }
  EXPECT_EQ(live_bytes(), after_first);
}

TEST(OpenStep, H10ThatAnotherThreadDestroysRecordsNothingMore) {
  auto x = torch::randn({1000}).requires_grad_();
  Region region({.policy = "drop_all"});
  auto step = std::make_unique<OpenStep>(region.open());
  static_cast<void>(x.exp());
  std::thread([&] { step.reset(); }).join();
  install_cpu_counter();
  const auto before = live_bytes();
  for (int i = 0; i < 10; ++i) static_cast<void>(torch::zeros({1000}) * x);
  EXPECT_EQ(live_bytes(), before);
  region.run([&] { return x.exp().sin(); }).sum().backward();
  EXPECT_TRUE(region.has_plan());
}

}  // namespace
}  // namespace gradrecomp::test
