// What is special to devices other than the CPU: kernels that work in no fixed order, algorithms
// that each thread chooses anew, work that is captured into a graph.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "gradrecomp/device/allocations.h"
#include "gradrecomp/device/capture.h"
#include "gradrecomp/kernels/table.h"
#include "support/host_device/host_device.h"
#include "support/messages.h"
#include "support/own_operator.h"
#include "support/plans.h"
#include "support/training.h"
#include "tape/calls/may_differ.h"
#include "tape/dispatch/fickle.h"
#include "tape/dispatch/op_traits.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(kHostDevice); }

using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// Steps of a region that drops all it can; the gradient of each.
struct Steps {
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
std::int64_t replays_of(const Forward& forward, const at::Tensor& x) {
  Steps steps(forward);
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
  return steps.region.last_step().num_replayed_ops;
}

TEST(Fickle, EveryNameIsOneOfLibTorchs) {
  for (const auto names :
       {tape::operators_without_order(), tape::operators_without_order_of_threads()}) {
    for (const auto name : names) {
      const auto all = c10::Dispatcher::singleton().getAllOpNames();
      EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& op) { return op.name == name; }))
          << name;
    }
  }
}

// Two threads may add to one element in either order, if there is enough to share.
TEST(Fickle, WhatThreadsOfTheCpuAddInNoOrderIsKeptUnlessThereIsOne) {
  const auto index = torch::tensor({0, 2, 0}, torch::kLong);
  const auto replays = [&] {
    return replays_of(
        [&](const at::Tensor& input) {
          return torch::index_put(input.exp(), {index}, input.narrow(0, 0, 3), true).sin();
        },
        torch::randn({6, 4}).requires_grad_());
  };
  const int num_threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto most = replays();
  at::set_num_threads(2);
  EXPECT_LT(replays(), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  EXPECT_EQ(replays(), most);
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::set_num_threads(num_threads);
}

TEST(Fickle, WhatAddsInNoOrderIsKeptOnDevicesUnlessAlgorithmsAreDeterministic) {
  const auto index = torch::tensor({0, 2, 0}, torch::kLong);
  const auto replays_on = [&](c10::Device device) {
    const auto x = torch::randn({6, 4}).to(device).requires_grad_();
    return replays_of(
        [rows = index.to(device)](const at::Tensor& input) {
          return torch::index_add(input.exp(), 0, rows, input.narrow(0, 0, 3)).sin();
        },
        x);
  };
  const auto most = replays_on(c10::kCPU);
  EXPECT_LT(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  EXPECT_LT(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_EQ(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(Fickle, ConvolutionsAreKeptWhileThreadsMeasureTheirAlgorithms) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({3, 2, 3, 3}));
  const auto forward = [&](const at::Tensor& input) {
    return torch::conv2d(input.exp(), weight).sin();
  };
  const auto usually = replays_of(forward, x);
  at::globalContext().setBenchmarkCuDNN(true);
  EXPECT_LT(replays_of(forward, x), usually);
  at::globalContext().setBenchmarkCuDNN(false);
  EXPECT_EQ(replays_of(forward, x), usually);
}

TEST(Fickle, AChangeOfModeBetweenStepsIsPlannedAnew) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({3, 2, 3, 3}));
  Steps steps([&](const at::Tensor& input) { return torch::conv2d(input.exp(), weight).sin(); });
  const auto expected = steps.plain(x);
  const auto expect_right_steps = [&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
    EXPECT_TRUE(steps.region.last_step().followed_plan);
  };
  expect_right_steps();
  at::globalContext().setBenchmarkCuDNN(true);
  expect_right_steps();
  at::globalContext().setBenchmarkCuDNN(false);
  expect_right_steps();
  EXPECT_EQ(steps.region.num_plans(), 2);
}

// They run backward algorithms, of which some add up in no order.
TEST(Fickle, TransposedConvolutionsAreKept) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({2, 3, 3, 3}));
  const auto forward = [&](const at::Tensor& input) {
    return torch::conv_transpose2d(input.exp(), weight).sin();
  };
  const auto usually = replays_of(forward, x);
  at::globalContext().setDeterministicCuDNN(true);
  EXPECT_GT(replays_of(forward, x), usually);
  at::globalContext().setDeterministicCuDNN(false);
}

tape::Op rnn_layer(double dropout, bool train) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn", "");
  tape::Op op(handle, {});
  op.dispatch_state = std::make_shared<const tape::DispatchState>(tape::NumericMode::current());
  for (const auto& argument : handle.schema().arguments()) {
    c10::IValue value;
    if (argument.name() == "dropout") value = dropout;
    if (argument.name() == "train") value = train;
    op.arguments.push_back(value);
  }
  return op;
}

TEST(Fickle, RnnLayersWithDropoutGoOnFromAStateThatNobodySees) {
  const auto differs = [](double dropout, bool train, c10::Device device) {
    const auto op = rnn_layer(dropout, train);
    return tape::may_differ(tape::traits_of(op.handle).fickle, op, device);
  };
  EXPECT_TRUE(differs(0.5, true, kHostDevice));
  EXPECT_FALSE(differs(0.0, true, kHostDevice));
  EXPECT_FALSE(differs(0.5, false, kHostDevice));
  EXPECT_FALSE(differs(0.5, true, c10::kCPU));
}

// As cuDNN's choice of an algorithm, which each thread makes for itself.
at::Tensor threaded(const at::Tensor& x) {
  static const auto first_thread = std::this_thread::get_id();
  return x * (std::this_thread::get_id() == first_thread ? 2.0 : 3.0);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("threaded(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("threaded", &threaded);
}

TEST(ReplayThread, WhatAnotherThreadMakesOtherwiseIsFoundAndKept) {
  const auto x = on_device(torch::randn({8})).requires_grad_();
  const WarningLog warnings;
  Steps steps(
      [](const at::Tensor& input) { return OwnOperator::apply(input.exp(), "threaded").sin(); });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x))) << i;
  EXPECT_THAT(warnings.text(), HasSubstr("gradrecomp_test::threaded"));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
}

// A difference in a byte that is not part of a word.
at::Tensor last_byte(const at::Tensor& x) {
  static std::atomic<std::uint8_t> calls{0};
  auto made = at::zeros({13}, x.options().dtype(at::kByte).device(at::kCPU));
  made[12] = ++calls;
  return made.to(x.device());
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("last_byte(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("last_byte", &last_byte);
}

TEST(ReplayThread, EveryByteIsCompared) {
  const auto x = on_device(torch::randn({13})).requires_grad_();
  const WarningLog warnings;
  Region region({.policy = "drop_all"});
  region
      .run([&] {
        const auto bytes = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("gradrecomp_test::last_byte", "")
                               .typed<at::Tensor(const at::Tensor&)>()
                               .call(x.detach());
        return x * bytes;
      })
      .sum()
      .backward();
  EXPECT_THAT(warnings.text(), HasSubstr("gradrecomp_test::last_byte"));
}

/// While it lives, convolutions find no memory for their workspaces.
class Shortage {
 public:
  Shortage() : callback_(at::addGlobalCallback(at::RecordFunctionCallback(&meet_convolution))) {}
  ~Shortage() { at::removeCallback(callback_); }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> meet_convolution(const at::RecordFunction& call) {
    if (std::string_view(call.name()) == "aten::convolution_overrideable")
      device::report_shortage();
    return nullptr;
  }
  at::CallbackHandle callback_;
};

class Shortages : public ::testing::Test {
 protected:
  at::Tensor x_ = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  at::Tensor weight_ = on_device(torch::randn({3, 2, 3, 3}));
  Forward forward_ = [this](const at::Tensor& input) {
    return torch::conv2d(input.exp(), weight_).sin();
  };
  Steps steps_{forward_};
  at::Tensor expected_ = steps_.plain(x_);

  void expect_right_steps(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(same_bits(expected_, steps_.step(x_))) << i;
  }
};

TEST_F(Shortages, OfWorkspaceInTheForwardPassKeepsWhatWasMadeAndVerifiesAnew) {
  expect_right_steps(2);
  const auto usually = steps_.region.last_step();
  ASSERT_TRUE(usually.followed_plan);
  {
    const Shortage shortage;
    const auto y = steps_.region.run([&] { return forward_(x_); });
    y.sum().backward();
    EXPECT_TRUE(same_bits(expected_, std::exchange(x_.mutable_grad(), at::Tensor())));
    EXPECT_LT(steps_.region.last_step().num_replayed_ops, usually.num_replayed_ops);
  }
  expect_right_steps(3);
  EXPECT_EQ(steps_.region.num_plans(), 2);
  EXPECT_EQ(steps_.region.last_step().num_replayed_ops, usually.num_replayed_ops);
}

TEST_F(Shortages, OfWorkspaceInAReplayAreAnErrorOfThatBackwardAlone) {
  expect_right_steps(2);
  const auto y = steps_.region.run([&] { return forward_(x_); });
  {
    const Shortage shortage;
    EXPECT_THAT(message_of([&] { y.sum().backward(); }),
                HasSubstr("found no memory for its workspace in a replay"));
  }
  EXPECT_FALSE(x_.grad().defined());
  expect_right_steps(4);
  EXPECT_TRUE(steps_.region.last_step().followed_plan);
}

/// A number of the CPU beside a tensor of the device.
TEST(DeviceRules, CopiesFromTheHostBelongToTheStreamOfTheDevice) {
  const auto on_host = torch::randn({8});
  const auto x = on_device(on_host).requires_grad_();
  const auto tape = std::make_shared<tape::Tape>();
  {
    const tape::Recorder recorder(tape, {});
    const auto there = on_host.to(kHostDevice);
    const auto back = (x * there).to(torch::kCPU);
    const auto stays = (back * on_host).to(torch::kDouble);
  }
  std::vector<bool> has_stream;
  for (const auto& op : tape->ops()) has_stream.push_back(op.stream.has_value());
  EXPECT_THAT(has_stream, ::testing::ElementsAre(true, true, true, false, false));
}

TEST(DeviceRules, NumbersOfTheCpuBesideItsTensorsAreReplayedOnItsStream) {
  const auto x = on_device(torch::randn({8})).requires_grad_();
  const auto number = torch::tensor(1.3F);
  EXPECT_EQ(replays_of([&](const at::Tensor& input) { return (number * input.exp()).sin(); }, x),
            2);
}

TEST(DeviceRules, AKernelThatFailsInTheForwardPassDoesNotEndIt) {
  constexpr kernels::Table kFailing{
      .pack_mask = [](const kernels::PackMask&,
                      kernels::Stream) { TORCH_CHECK(false, "no image for this card"); },
      .unpack_mask = [](const kernels::UnpackMask&, kernels::Stream) {}};
  kernels::register_table(c10::kPrivateUse1, &kFailing);
  const WarningLog warnings;
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps([](const at::Tensor& input) {
    torch::manual_seed(3);
    return std::get<0>(torch::native_dropout(input.exp(), 0.5, true)).sin();
  });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x))) << i;
  kernels::register_table(c10::kPrivateUse1, nullptr);
  EXPECT_THAT(warnings.text(), HasSubstr("stops using its own kernels"));
}

constinit std::atomic<bool> captures{false};

/// While it lives, the device says that its work is captured into a graph.
class Capture {
 public:
  Capture() {
    device::register_capture_query([] { return captures.load(); });
    captures = true;
  }
  ~Capture() { captures = false; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
};

at::Tensor with_dropout(const at::Tensor& x) {
  torch::manual_seed(3);
  return torch::dropout(x.exp(), 0.5, true).sin().tanh();
}

TEST(Captures, NothingIsProfiledOrVerified) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps(with_dropout);
  const auto expected = steps.plain(x);
  {
    const Capture capture;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
    EXPECT_FALSE(steps.region.last_step().profiled);
    EXPECT_EQ(steps.region.last_step().num_replayed_ops, 0);
  }
  EXPECT_EQ(steps.region.num_plans(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_EQ(steps.region.num_plans(), 1);
}

// A generator has no offset to go back to there, so what is drawn is kept.
TEST(Captures, PlansAreFollowedAndWhatIsDrawnIsKept) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps(with_dropout);
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) steps.step(x);
  const auto usually = steps.region.last_step();
  ASSERT_TRUE(usually.followed_plan);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
  EXPECT_GT(steps.region.last_step().num_replayed_ops, 0);
  EXPECT_LT(steps.region.last_step().num_replayed_ops, usually.num_replayed_ops);
}

// The mask is packed there as elsewhere, or the step's values would differ from its plan's.
TEST(Captures, PlansAreFollowedThroughPackedMasks) {
  const auto x = torch::randn({64}).requires_grad_();
  Steps steps([](const at::Tensor& input) {
    torch::manual_seed(3);
    return std::get<0>(at::native_dropout(input.exp(), 0.5, true)).sin().tanh();
  });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) steps.step(x);
  ASSERT_TRUE(steps.region.last_step().followed_plan);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan) << steps.region.last_step().reason;
  EXPECT_GT(steps.region.last_step().num_replayed_ops, 0);
}

TEST(Captures, NothingGoesToHostMemory) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Region first({.policy = "keep_all"});
  const auto step = [&](Region& region) {
    region.run([&] { return x.exp().sin().tanh(); }).sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  const auto expected = step(first);
  Region region({.plan = shared(all_away(first.graph()))});
  step(region);
  EXPECT_TRUE(same_bits(expected, step(region)));
  ASSERT_GT(region.last_step().offloaded_bytes, 0);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, step(region)));
  EXPECT_EQ(region.last_step().offloaded_bytes, 0);
}

}  // namespace
}  // namespace gradrecomp::test
