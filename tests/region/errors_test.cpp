// Conformance R1, R4, R6, R7: errors are clear, and nothing is lost by them.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/own_operator.h"
#include "support/training.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

// Looks pure to the dispatcher, but throws when told to.
std::atomic<bool> op_fails{false};
at::Tensor failing_op(const at::Tensor& x) {
  if (op_fails) C10_THROW_ERROR(OutOfMemoryError, "the kernel fails");
  return x.clone();
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("failing(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("failing", failing_op); }

at::Tensor failing(const at::Tensor& x) { return OwnOperator::apply(x, "failing"); }

TEST(Robustness, R1SavedTensorModifiedInPlaceGivesAutogradsErrorNamingTheOp) {
  auto x = torch::randn({4}).requires_grad_();
  at::Tensor inside;
  auto y = detail::run_dropped([&] {
    inside = x.exp();
    return inside.sin().sum();
  });
  inside.detach().add_(1);
  const auto message = message_of([&] { y.backward(); });
  EXPECT_THAT(message, HasSubstr("has been modified by an inplace operation"));
  EXPECT_THAT(message, HasSubstr("aten::exp"));
}

TEST(Robustness, R1ParameterModifiedBeforeAReplayIsFound) {
  auto weight = torch::randn({4}).requires_grad_();
  auto x = torch::randn({4}).requires_grad_();
  auto y = detail::run_dropped([&] { return (x + weight).exp().sin().sum(); });
  {
    const torch::NoGradGuard no_grad;
    weight.add_(1);
  }
  const auto message = message_of([&] { y.backward(); });
  EXPECT_THAT(message, HasSubstr("has been modified by an inplace operation"));
  EXPECT_THAT(message, HasSubstr("aten::add"));
}

TEST(Robustness, R1InputModifiedBeforeAReplayIsFound) {
  auto x = torch::randn({4});
  auto weight = torch::randn({4}).requires_grad_();
  auto y = detail::run_dropped([&] { return (x.exp() * weight).sin().sum(); });
  x.mul_(2);
  const auto message = message_of([&] { y.backward(); });
  EXPECT_THAT(message, HasSubstr("has been modified by an inplace operation"));
  EXPECT_THAT(message, HasSubstr("aten::exp"));
}

TEST(Robustness, R1KeptValueModifiedIsAutogradsErrorNamingTheOp) {
  auto x = torch::randn({4}).requires_grad_();
  at::Tensor inside;
  Region region({.policy = "keep_all"});
  const auto body = [&] {
    inside = x.exp();
    return inside.sin().sum();
  };
  region.run(body).backward();
  x.mutable_grad() = at::Tensor();
  const auto y = region.run(body);
  EXPECT_TRUE(region.last_step().followed_plan);
  inside.detach().add_(1);
  const auto message = message_of([&] { y.backward(); });
  EXPECT_THAT(message, HasSubstr("has been modified by an inplace operation"));
  EXPECT_THAT(message, HasSubstr("aten::exp"));
}

TEST(Robustness, R1OutputModifiedWherePlainAllowsItIsReplayedInstead) {
  auto x = torch::randn({4}).requires_grad_();
  const auto step = [&](auto run) {
    auto y = run([&] { return x.exp() + 1; });
    y.mul_(3);
    y.sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  const auto plain = step([](auto body) { return body(); });
  EXPECT_TRUE(same_bits(plain, step([](auto body) { return detail::run_dropped(body); })));
}

// A reshape that must copy, and a product of 3-D tensors, end in aten::_unsafe_view, which gives
// memory a second version counter.
TEST(Robustness, R1OutputModifiedThroughAnUnsafeViewIsReplayedInstead) {
  auto x = torch::randn({2, 3, 4}).requires_grad_();
  const auto step = [&](auto run) {
    auto outputs = run([&] {
      const auto y = x.exp().transpose(0, 1).reshape({3, 8});
      return Tensors{y, torch::tanh(y).var()};  // saves the tanh alone
    });
    outputs[0].mul_(3);
    (outputs[0].sum() + outputs[1]).backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  const auto plain = step([](auto body) { return body(); });
  EXPECT_TRUE(same_bits(plain, step([](auto body) { return detail::run_dropped(body); })));
}

// torch::zeros() makes a variable of what at::zeros() returned.
TEST(Robustness, R1OutputMadeByAFactoryAndModifiedIsReplayedInstead) {
  auto x = torch::randn({4}).requires_grad_();
  const auto step = [&](auto run) {
    auto outputs = run([&] {
      const auto y = torch::zeros({4}).add_(x);
      return Tensors{y, torch::tanh(y * 2).var()};  // saves the tanh alone
    });
    outputs[0].mul_(3);
    (outputs[0].sum() + outputs[1]).backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  const auto plain = step([](auto body) { return body(); });
  EXPECT_TRUE(same_bits(plain, step([](auto body) { return detail::run_dropped(body); })));
}

TEST(Robustness, R4ExceptionInForwardRestoresTheThread) {
  Region region({.policy = "drop_all"});
  auto x = torch::randn({4}).requires_grad_();
  EXPECT_THROW(region.run([&]() -> at::Tensor {
    auto y = x.exp();
    TORCH_CHECK(false, "the user's forward fails");
    return y;
  }),
               c10::Error);
  EXPECT_EQ(tape::Recorder::current(), nullptr);
  EXPECT_TRUE(torch::GradMode::is_enabled());
  x.exp().sum().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  region.run([&] { return x.exp().sum(); }).backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R4ExceptionOfAnOpLeavesTheGeneratorAsPlainTrainingDoes) {
  const auto x = torch::randn({4}).requires_grad_();
  Region region({.policy = "drop_all"});
  torch::manual_seed(8);
  const auto body = [&]() -> at::Tensor {
    const auto y = torch::dropout(x, 0.5, true).exp();
    return y.mm(y);  // takes matrices only
  };
  EXPECT_THROW(region.run(body), c10::Error);
  const auto wrapped = random_state();
  torch::manual_seed(8);
  EXPECT_THROW(body(), c10::Error);
  EXPECT_TRUE(same_bits(random_state(), wrapped));
}

TEST(Robustness, R4ExceptionInAUsersHookAllowsARetry) {
  bool fails = true;
  expect_same_step([&](const Wrap& wrap) {
    const auto x = torch::randn({4, 4}).requires_grad_();
    const auto y = one(wrap)([&] {
      auto inside = torch::dropout(x.exp(), 0.5, true);
      inside.register_hook([&](at::Tensor gradient) {
        TORCH_CHECK(!fails, "a user's hook fails");
        return gradient;
      });
      return inside.sin().cos().sum();
    });
    fails = true;
    EXPECT_THROW(y.backward({}, true), c10::Error);
    EXPECT_EQ(tape::Recorder::current(), nullptr);
    EXPECT_TRUE(torch::GradMode::is_enabled());
    fails = false;
    y.backward();
    return Tensors{x.grad(), random_state()};
  });
}

TEST(Robustness, R4ExceptionInReplayLeavesRandomStateAndAllowsARetry) {
  auto x = torch::randn({4}).requires_grad_();
  const auto body = [&] { return failing(torch::dropout(x.exp(), 0.5, true)).sin().sum(); };
  torch::manual_seed(4);
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  torch::manual_seed(4);
  const auto y = detail::run_dropped(body);
  const auto random = random_state();
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  op_fails = true;
  EXPECT_THAT(message_of([&] { y.backward({}, true); }), HasSubstr("the kernel fails"));
  op_fails = false;
  EXPECT_TRUE(same_bits(random, random_state()));
  EXPECT_TRUE(torch::GradMode::is_enabled());
  EXPECT_EQ(c10::impl::tls_local_dispatch_key_set().included_, keys.included_) << "autocast";
  EXPECT_EQ(c10::impl::tls_local_dispatch_key_set().excluded_, keys.excluded_);
  x.mutable_grad() = at::Tensor();
  y.backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R6OutOfMemoryInAReplayNamesThePlanAndAllowsARetry) {
  install_cpu_counter();
  const auto x = torch::randn({64}).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  Region region({.policy = "drop_all"});
  const auto body = [&] { return failing(x.exp()).sin().sum(); };
  region.run(body).backward();
  const auto plain = x.grad().clone();
  const auto live = [] { return memory_counter(c10::kCPU).current_bytes; };
  const auto start = live();
  {
    const auto loss = region.run(body);
    x.grad().zero_();
    op_fails = true;
    const auto message = message_of([&] {
      EXPECT_THROW(loss.backward({}, true), c10::OutOfMemoryError);
      loss.backward({}, true);
    });
    op_fails = false;
    EXPECT_THAT(message, HasSubstr("rematerializing 256 bytes made by gradrecomp_test::failing"));
    EXPECT_THAT(message, HasSubstr(region.plan().brief_report()));
    loss.backward();
  }
  EXPECT_TRUE(same_bits(plain, x.grad()));
  EXPECT_EQ(live(), start);
}

TEST(Robustness, R7OptionsAreValidatedWhenSet) {
  const auto message = [](Options options) { return message_of([&] { Region region(options); }); };
  EXPECT_THAT(message({.max_overhead = -0.1}), HasSubstr("max_overhead is -0.1, but must be"));
  EXPECT_THAT(message({.max_overhead = NAN}), HasSubstr("max_overhead is nan"));
  EXPECT_THAT(message({.max_peak_bytes = 0}),
              HasSubstr("max_peak_bytes is 0, but must be positive"));
  EXPECT_THAT(message({.max_overhead = 0.1, .max_peak_bytes = 5}), HasSubstr("at most one"));
  for (const std::string name : {"keep_some", "max_overhead", ""}) {
    EXPECT_THAT(message_of([&] { static_cast<void>(Options{.policy = name}); }),
                HasSubstr("policy is \"" + name + "\", but must be one of keep_all, drop_all"));
  }
  const auto plan = std::make_shared<const plan::Plan>();
  EXPECT_THAT(message({.policy = "keep_all", .plan = plan}),
              HasSubstr("Options::plan and Options::policy are both set"));
  EXPECT_THAT(message({.window_bytes = 0}), HasSubstr("window_bytes is 0"));
  EXPECT_THAT(message({.unrecorded_bytes = -1}), HasSubstr("unrecorded_bytes is -1"));
  EXPECT_THAT(message({.verify_interval_steps = 0}), HasSubstr("verify_interval_steps is 0"));
  EXPECT_THAT(message({.max_plans = 0}), HasSubstr("max_plans is 0"));
  EXPECT_THAT(message({.verify = static_cast<Verify>(77)}), HasSubstr("verify is 77, but must be"));
  EXPECT_THAT(message({.guard = static_cast<Guard>(9)}), HasSubstr("guard is 9, but must be"));
  EXPECT_THAT(message({.cost = static_cast<plan::CostModel>(9)}), HasSubstr("cost is 9"));
  EXPECT_THAT(message({.forms = static_cast<Forms>(9)}), HasSubstr("forms is 9"));
}

TEST(Robustness, R7PlanBeforeAnyStepIsAnError) {
  const Region region;
  EXPECT_THAT(message_of([&] { static_cast<void>(region.plan()); }), HasSubstr("Run a step"));
}

}  // namespace
}  // namespace gradrecomp::test
