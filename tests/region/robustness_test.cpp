// Conformance R and P5: errors are clear, and nothing is lost by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "gradrecomp/nn/checkpoint.h"
#include "gradrecomp/region/region.h"
#include "gradrecomp/tape/recorder.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

// Replays differ: every call returns another number.
at::Tensor counting_op(const at::Tensor& x) {
  static std::atomic<int> calls{0};
  return x + ++calls;
}

// Looks pure to the dispatcher, but its replay throws after the first call.
std::atomic<bool> op_fails{false};
at::Tensor failing_op(const at::Tensor& x) {
  TORCH_CHECK(!op_fails, "the kernel fails");
  return x.clone();
}

TORCH_LIBRARY(gradrecomp_test, library) {
  library.def("counting(Tensor x) -> Tensor", counting_op);
  library.def("failing(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("failing", failing_op); }

struct Counting : torch::autograd::Function<Counting> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, at::Tensor x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("gradrecomp_test::below_counting", "")
                         .typed<at::Tensor(const at::Tensor&)>();
    return op.call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("below_counting(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("below_counting", counting_op);
}

// Collects warnings instead of printing them.
class WarningLog : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { messages += warning.msg() + "\n"; }
  std::string messages;
};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Robustness, R1SavedTensorModifiedInPlaceGivesAutogradsErrorNamingTheOp) {
  auto x = torch::randn({4}).requires_grad_();
  at::Tensor inside;
  auto y = run_dropped([&] {
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
  auto y = run_dropped([&] { return (x + weight).exp().sin().sum(); });
  {
    const torch::NoGradGuard no_grad;
    weight.add_(1);
  }
  const auto message = message_of([&] { y.backward(); });
  EXPECT_THAT(message, HasSubstr("has been modified by an inplace operation"));
  EXPECT_THAT(message, HasSubstr("aten::add"));
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
  EXPECT_TRUE(same_bits(plain, step([](auto body) { return run_dropped(body); })));
}

TEST(Robustness, R2RawWriteInsideTheRegionIsFoundAndKept) {
  WarningLog log;
  const c10::WarningUtils::WarningHandlerGuard guard(&log);
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    auto y = x.exp();
    y.data_ptr<float>()[0] = 42;  // nobody is told
    return y.sin().sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor()))) << "step " << step;
  }
  EXPECT_THAT(log.messages, HasSubstr("aten::exp"));
}

TEST(Robustness, R2EmptyFilledByARawKernelIsNeverDropped) {
  auto x = torch::randn({8}).requires_grad_();
  const auto body = [&] {
    auto noise = torch::empty({8});
    for (int i = 0; i < 8; ++i) noise.data_ptr<float>()[i] = static_cast<float>(i);
    return (x * noise).sin().sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  run_dropped(body).backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R3OpWhoseReplayDiffersIsFoundKeptAndNamedOnce) {
  WarningLog log;
  const c10::WarningUtils::WarningHandlerGuard guard(&log);
  auto x = torch::zeros({4}).requires_grad_();
  Region region({.policy = "drop_all"});
  std::string first_step;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) first_step = log.messages;
    at::Tensor seen;
    auto y = region.run([&] {
      auto counted = Counting::apply(x);
      seen = counted.detach().clone();
      return counted.exp().sum();
    });
    y.backward();
    EXPECT_TRUE(same_bits(x.grad(), seen.exp())) << "step " << step;
    x.mutable_grad() = at::Tensor();
  }
  EXPECT_THAT(first_step, HasSubstr("gradrecomp_test::below_counting"));
  EXPECT_EQ(log.messages, first_step) << "named again in a later step";
}

TEST(Robustness, VerificationComesAgainEveryNSteps) {
  auto x = torch::randn({4}).requires_grad_();
  Region region(
      {.policy = "drop_all", .verify = Verify::every_n_steps, .verify_interval_steps = 3});
  std::vector<bool> profiled;
  for (int step = 0; step < 7; ++step) {
    region.run([&] { return x.exp().sin().sum(); }).backward();
    profiled.push_back(region.last_step().profiled);
  }
  EXPECT_EQ(profiled, (std::vector<bool>{true, false, false, true, false, false, true}));
}

TEST(Robustness, WithoutVerificationNothingIsReplayedTwice) {
  auto x = torch::zeros({4}).requires_grad_();
  WarningLog log;
  const c10::WarningUtils::WarningHandlerGuard guard(&log);
  Region region({.policy = "keep_all", .verify = Verify::never});
  const auto before = Counting::apply(torch::zeros({1})).item<float>();
  for (int step = 0; step < 2; ++step) {
    region.run([&] { return Counting::apply(x).sum(); }).backward();
  }
  EXPECT_EQ(Counting::apply(torch::zeros({1})).item<float>(), before + 3) << "calls of the op";
  EXPECT_EQ(log.messages, "");
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

TEST(Robustness, R4ExceptionInReplayLeavesRandomStateAndAllowsARetry) {
  auto x = torch::randn({4}).requires_grad_();
  const auto body = [&] {
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("gradrecomp_test::failing", "")
                         .typed<at::Tensor(const at::Tensor&)>();
    at::Tensor copy;
    {
      const torch::NoGradGuard no_grad;
      copy = op.call(torch::dropout(x, 0.5, true));
    }
    return (x.exp() * copy).sin().sum();
  };
  torch::manual_seed(4);
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  torch::manual_seed(4);
  const auto y = run_dropped(body);
  const auto random = at::globalContext().defaultGenerator(c10::kCPU).get_state();
  op_fails = true;
  EXPECT_THAT(message_of([&] { y.backward({}, true); }), HasSubstr("the kernel fails"));
  op_fails = false;
  EXPECT_TRUE(same_bits(random, at::globalContext().defaultGenerator(c10::kCPU).get_state()));
  EXPECT_FALSE(torch::GradMode::is_enabled() != true);
  x.mutable_grad() = at::Tensor();
  y.backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R5ChainOfTwentyThousandDroppedOps) {
  auto x = torch::randn({2}).requires_grad_();
  const auto body = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = y.sin();
    return y.sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  run_dropped(body).backward();
  EXPECT_TRUE(same_bits(plain, x.grad()));
}

TEST(Robustness, R5TwoThousandRegions) {
  auto x = torch::randn({3}).requires_grad_();
  at::Tensor y = x;
  for (int i = 0; i < 2000; ++i) y = checkpoint([](at::Tensor z) { return z.sin().cos(); }, y);
  y.sum().backward();
  const auto wrapped = std::exchange(x.mutable_grad(), at::Tensor());
  y = x;
  for (int i = 0; i < 2000; ++i) y = y.sin().cos();
  y.sum().backward();
  EXPECT_TRUE(same_bits(wrapped, x.grad()));
}

TEST(Robustness, R7OptionsAreValidatedWhenSet) {
  const auto message = [](Options options) { return message_of([&] { Region region(options); }); };
  EXPECT_THAT(message({.max_overhead = -0.1}), HasSubstr("max_overhead is -0.1, but must be"));
  EXPECT_THAT(message({.max_overhead = NAN}), HasSubstr("max_overhead is nan"));
  EXPECT_THAT(message({.max_peak_bytes = 0}),
              HasSubstr("max_peak_bytes is 0, but must be positive"));
  EXPECT_THAT(message({.max_overhead = 0.1, .max_peak_bytes = 5}), HasSubstr("at most one"));
  EXPECT_THAT(message({.policy = "keep_some"}), HasSubstr("keep_some"));
  const auto plan = std::make_shared<const plan::Plan>();
  EXPECT_THAT(message({.policy = "keep_all", .plan = plan}), HasSubstr("policy is \"keep_all\""));
  EXPECT_THAT(message({.window_bytes = 0}), HasSubstr("window_bytes is 0"));
  EXPECT_THAT(message({.verify_interval_steps = 0}), HasSubstr("verify_interval_steps is 0"));
}

TEST(Robustness, BackwardInsideTheRegionStaysUnderTheSafePlan) {
  auto x = torch::randn({4}).requires_grad_();
  const auto body = [&] {
    auto y = x.exp().sin();
    auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    return (y * slope).sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  WarningLog log;
  const c10::WarningUtils::WarningHandlerGuard guard(&log);
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor()))) << "step " << step;
  }
  EXPECT_FALSE(region.has_plan());
  EXPECT_THAT(log.messages, HasSubstr("cannot plan this op sequence"));
}

TEST(Robustness, R7PlanBeforeAnyStepIsAnError) {
  const Region region;
  EXPECT_THAT(message_of([&] { static_cast<void>(region.plan()); }), HasSubstr("Run a step"));
}

TEST(Robustness, P5ProfilingChangesNoParameterBufferRandomStateOrGradient) {
  const auto make = [] {
    torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4),
                                torch::nn::Dropout(0.5), torch::nn::Linear(4, 2));
    return Program{model.ptr(),
                   [model](const std::vector<at::Tensor>& x) mutable {
                     return std::vector<at::Tensor>{model->forward(x[0])};
                   },
                   [] {
                     return std::vector<at::Tensor>{torch::randn({6, 4})};
                   }};
  };
  // One byte per window: every op is verified by itself, and what it made is then a boundary.
  std::int64_t num_replayed_ops = 0;
  for (const std::int64_t window_bytes : {std::int64_t{1}, std::int64_t{1} << 30}) {
    const Options options{.policy = "drop_all", .window_bytes = window_bytes};
    num_replayed_ops += expect_same_training(make, {options}, 1);
  }
  EXPECT_GT(num_replayed_ops, 0);
}

TEST(Robustness, P3ChangedShapesPlanOnceAndThenAlternateWithoutReplanning) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 4));
  Region region({.policy = "drop_all"});
  int num_profiled = 0;
  for (int step = 0; step < 12; ++step) {
    const auto x = torch::randn({step % 3 + 1, 4});
    region.run([&] { return model->forward(x).sin(); }).sum().backward();
    num_profiled += region.last_step().profiled;
    if (step >= 3) {
      EXPECT_TRUE(region.last_step().followed_plan) << "step " << step;
    }
  }
  EXPECT_EQ(num_profiled, 3);
  EXPECT_EQ(region.num_plans(), 3);
}

TEST(Robustness, P3SequenceThatChangesMidwayFallsBackAndIsPlannedNext) {
  auto x = torch::randn({4}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto step = [&](bool longer) {
    const auto body = [&] {
      auto y = x.exp().sin();
      return (longer ? y.cos().tanh() : y.sigmoid()).sum();
    };
    body().backward();
    const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor())));
  };
  step(false);
  step(true);
  EXPECT_FALSE(region.last_step().followed_plan);
  EXPECT_FALSE(region.last_step().profiled);
  step(true);
  EXPECT_TRUE(region.last_step().profiled);
  step(false);
  EXPECT_TRUE(region.last_step().followed_plan);
  step(true);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_EQ(region.num_plans(), 2);
}

}  // namespace
}  // namespace gradrecomp::test
