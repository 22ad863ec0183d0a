// A device other than the CPU: what it allocates is reported to the step that is profiled, its
// backward runs on a thread of autograd's, its work has streams and events.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include <thread>

#include "devices/on_device.h"
#include "gradrecomp/host_link.h"
#include "gradrecomp/kernels/table.h"
#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "support/host_device/host_device.h"
#include "support/messages.h"
#include "support/plans.h"
#include "support/predicted_peaks.h"
#include "tape/record/recorder.h"
#include "tape/replay/verification.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Device : public LiveMemory {};

template <typename Model>
Model moved(Model model) {
  move_to_host_device(*model);
  return model;
}

at::Tensor images() { return on_device(torch::randn({2, 3, 32, 32})); }

models::BertModel bert() {
  return moved(models::BertModel(models::BertOptions{.vocab_size = 50,
                                                     .hidden_size = 32,
                                                     .num_layers = 2,
                                                     .num_heads = 2,
                                                     .intermediate_size = 64,
                                                     .max_positions = 32}));
}

at::Tensor tokens() { return on_device(torch::randint(0, 50, {2, 24})); }

nn::Sequential convolutions() {
  return moved(nn::Sequential(nn::Conv2d(3, 8, 3), nn::ReLU(nn::ReLUOptions(true)),
                              nn::Conv2d(8, 8, 3), nn::Dropout(0.3), nn::GELU(), nn::Flatten(),
                              nn::Linear(8 * 28 * 28, 5)));
}

Tensors gradients(const nn::Module& model) {
  Tensors all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.grad().cpu());
  return all;
}

TEST_F(Device, M3AndM9PredictedPeakAndReplaysOfAResNetAreExact) {
  expect_predicted_peaks(moved(models::resnet18(10)), images(), true);
}

// Its streams are such as nothing times, so the host's clock counts.
TEST_F(Device, SecondsOfAStepCountItsBackward) {
  auto model = moved(models::resnet18(10));
  Region region({.policy = "keep_all"});
  region.run([&] { return model->forward(images()); }).sum().backward();
  const plan::Graph graph = region.graph();
  double forward = 0;
  for (const plan::Op& op : graph.ops) forward += op.is_part ? 0 : op.replay_seconds;
  EXPECT_GT(graph.step_seconds, forward);
}

TEST_F(Device, M3PredictedPeakIsExactWithoutPreallocatedGradients) {
  expect_predicted_peaks(moved(models::resnet18(10)), images(), false);
}

TEST_F(Device, M3AndM9PredictedPeakAndReplaysAreExactWithKernels) {
  const KernelsOfDevice kernels;
  expect_predicted_peaks(moved(models::resnet18(10)), images(), true);
}

TEST_F(Device, M3AndM9PredictedPeakAndReplaysOfABertAreExact) {
  expect_predicted_peaks(bert(), tokens(), true);
}

TEST_F(Device, M3OffloadedValuesTakeNoMemoryOfIt) {
  auto model = convolutions();
  const auto x = images();
  const auto step = [&](Region& region) {
    preallocate_gradients(*model);
    torch::manual_seed(5);
    return peak_of([&] { return region.run([&] { return model->forward(x); }).pow(2).sum(); },
                   kHostDevice);
  };
  Region plain({.policy = "keep_all"});
  step(plain);
  const auto expected = gradients(*model);
  Region region({.plan = shared(all_away(plain.graph()))});
  step(region);
  EXPECT_EQ(step(region), region.plan().predicted_peak_bytes);
  EXPECT_LT(region.plan().predicted_peak_bytes, plain.plan().predicted_peak_bytes);
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
  expect_same_bits(expected, gradients(*model));
}

// Takes memory on its way back, before anything is unpacked.
struct Roomy : torch::autograd::Function<Roomy> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    const auto room = torch::zeros({64, 64}, gradients[0].options());
    return {gradients[0] + room.sum()};
  }
};

// Nobody reports it: the tape holds that memory, too.
TEST_F(Device, M3PredictedPeakIsExactWhereTheProgramLetsGoOfWhatTheTapeHolds) {
  const auto x = on_device(torch::randn({32, 32})).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  Region region({.policy = "drop_all"});
  const auto step = [&] {
    return peak_of(
        [&] {
          at::Tensor held;
          const auto y = region.run([&] {
            held = x.exp();
            return Roomy::apply(held);
          });
          return y.sum();
        },
        kHostDevice);
  };
  step();
  EXPECT_EQ(step(), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.last_step().followed_plan);
}

TEST_F(Device, LinkToTheHostIsMeasured) {
  const plan::HostLink link = measured_host_link(kHostDevice);
  EXPECT_GT(link.store_bytes_per_second, 0);
  EXPECT_GT(link.fetch_bytes_per_second, 0);
  EXPECT_TRUE(link.overlaps);
}

TEST_F(Device, M3PredictedPeakIsExactUnderAPlanThatMayOffload) {
  auto model = convolutions();
  preallocate_gradients(*model);
  const auto x = images();
  const auto step = [&](Region& region) {
    return peak_of([&] { return region.run([&] { return model->forward(x); }).pow(2).sum(); },
                   kHostDevice);
  };
  Region region({.max_overhead = 0.02, .offload = true});
  step(region);
  EXPECT_EQ(step(region), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.last_step().followed_plan);
}

// Kernels of another device may round otherwise, so what was verified on one holds on no other.
TEST_F(Device, PlanOfAnotherDeviceIsNotFollowed) {
  Region region({.policy = "drop_all"});
  const auto step_with = [&](const at::Tensor& input) {
    const auto x = input.detach().requires_grad_();
    region.run([&] { return x.exp().sin(); }).sum().backward();
    return region.last_step();
  };
  const auto on_cpu = torch::randn({8});
  step_with(on_cpu);
  EXPECT_TRUE(step_with(on_cpu).followed_plan);
  EXPECT_TRUE(step_with(on_device(on_cpu)).profiled);
  EXPECT_TRUE(step_with(on_device(on_cpu)).followed_plan);
  EXPECT_EQ(region.num_plans(), 2);
}

TEST_F(Device, StepsAreTheSame) {
  expect_same_step([](const Wrap& wrap) {
    auto model = convolutions();
    for (int step = 0; step < 3; ++step) {
      const auto x = images();
      one(wrap)([&] { return model->forward(x); }).exp().sum().backward();
    }
    return gradients(*model);
  });
}

TEST_F(Device, StepsAreTheSameWithKernels) {
  const KernelsOfDevice kernels;
  expect_same_step([](const Wrap& wrap) {
    auto model = convolutions();
    one(wrap)([&] { return model->forward(images()); }).exp().sum().backward();
    return gradients(*model);
  });
}

TEST_F(Device, StepsOfABertAreTheSameWithKernels) {
  const KernelsOfDevice kernels;
  expect_same_step([](const Wrap& wrap) {
    auto model = bert();
    for (int step = 0; step < 2; ++step) {
      const auto forward = [&, x = tokens()]() mutable {
        for (auto& stage : model->stages()) x = stage.forward(x);
        return x;
      };
      one(wrap)(forward).pow(2).sum().backward();
    }
    return gradients(*model);
  });
}

TEST_F(Device, ForwardOnASideStreamIsReplayedThere) {
  const c10::impl::VirtualGuardImpl devices(c10::kPrivateUse1);
  const auto side = devices.getStreamFromGlobalPool(kHostDevice);
  const auto x = on_device(torch::randn({32})).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    at::Tensor y;
    {
      const c10::StreamGuard guard(side);
      y = region.run([&] { return x.exp().sin().tanh(); });
    }
    y.sum().backward();
    EXPECT_EQ(devices.getStream(kHostDevice), devices.getDefaultStream(kHostDevice));
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

/// A step that drops everything, after two that were profiled: there is no gradient yet in the
/// first.
StepReport planned_step(const std::function<at::Tensor(const at::Tensor&)>& forward) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) region.run([&] { return forward(x); }).sum().backward();
  return region.last_step();
}

at::Tensor pointwise_ops(const at::Tensor& x) { return ((x * 2).relu_() + 1).relu().exp().sin(); }

// As with CUDA where gradrecomp::cuda is not linked.
TEST_F(Device, WithoutKernelsOpsAreReplayedByTheirCalls) {
  const WarningLog warnings;
  const StepReport step = planned_step(pointwise_ops);
  EXPECT_THAT(warnings.messages, IsEmpty());
  EXPECT_EQ(step.num_replayed_ops, 5);
  EXPECT_EQ(step.num_substituted_ops, 0);
}

TEST_F(Device, KernelsReplayWhatTheyCan) {
  const KernelsOfDevice kernels;
  const StepReport step = planned_step(pointwise_ops);
  EXPECT_EQ(step.num_replayed_ops, 5);
  EXPECT_EQ(step.num_substituted_ops, 4);
}

TEST_F(Device, KernelsThatFailAreNotUsed) {
  constexpr kernels::Table kFailing{
      .apply_chain = [](const kernels::PointwiseChain&, kernels::Stream) {
        TORCH_CHECK(false, "no image for this card");
      }};
  const KernelsOfDevice kernels(&kFailing);
  const WarningLog warnings;
  const StepReport step =
      planned_step([](const at::Tensor& x) { return ((x * 2).relu() + 1).exp().sin(); });
  EXPECT_THAT(warnings.text(), HasSubstr("replays aten::relu by its call, as its kernel failed"));
  EXPECT_THAT(warnings.text(), HasSubstr("no image for this card"));
  EXPECT_EQ(step.num_replayed_ops, 4);
  EXPECT_EQ(step.num_substituted_ops, 0);
}

TEST_F(Device, WhatOtherThreadsAllocateIsNotTheSteps) {
  const auto x = on_device(torch::randn({1000})).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  const auto graph_beside = [&](bool loads) {
    Region region({.policy = "keep_all"});
    at::Tensor next;
    const auto y = region.run([&] {
      const auto half = x.exp();
      if (loads) std::thread([&] { next = on_device(torch::ones({5000})); }).join();
      return half.sin();
    });
    if (loads) std::thread([&] { next = on_device(torch::ones({7000})); }).join();
    y.sum().backward();
    return region.graph().events;
  };
  const auto alone = graph_beside(false);
  EXPECT_EQ(alone, graph_beside(true));
  EXPECT_GT(alone.size(), 5U);
}

// The allocator reports while it holds its lock, others allocate while they hold those of a tape.
TEST_F(Device, ThreadsThatProfileAtOnceDoNotWaitForEachOther) {
  const auto train = [](Tensors& results) {
    const auto x = on_device(torch::ones({256})).requires_grad_();
    Region region(
        {.max_overhead = 0.3, .verify = Verify::every_n_steps, .verify_interval_steps = 1});
    for (int step = 0; step < 50; ++step) {
      region.run([&] { return x.exp().sin().tanh().cos().exp(); }).sum().backward();
    }
    results.push_back(x.grad().cpu());
  };
  Tensors one;
  Tensors other;
  std::thread beside([&] { train(other); });
  train(one);
  beside.join();
  expect_same_bits(one, other);
}

TEST_F(Device, OffloadsThatThereIsNoHostMemoryForStay) {
  const AsynchronousDevice mode;  // which alone has pinned memory
  auto model = convolutions();
  const auto x = images();
  Region plain({.policy = "keep_all"});
  const auto step = [&](Region& region) {
    torch::manual_seed(1);
    model->zero_grad();
    region.run([&] { return model->forward(x); }).sum().backward();
    return gradients(*model);
  };
  const auto expected = step(plain);
  Region region({.plan = shared(all_away(plain.graph()))});
  for (int i = 0; i < 2; ++i) step(region);
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
  {
    const NoPinnedMemory scope;
    expect_same_bits(expected, step(region));
  }
  EXPECT_EQ(region.last_step().offloaded_bytes, 0);
  EXPECT_GT(region.last_step().unplanned_bytes, 0);
  expect_same_bits(expected, step(region));
  EXPECT_EQ(region.last_step().unplanned_bytes, 0);
}

// Each allocation in turn finds no memory.
TEST_F(Device, ProfilesGoOnWhereverMemoryOfVerificationEnds) {
  const KernelsOfDevice kernels;
  const auto x = on_device(torch::randn({64}));
  const auto weight = on_device(torch::randn({64})).requires_grad_();
  const auto body = [&] { return (torch::relu(x * weight) * 0.5 + x).exp().sum(); };
  const auto gradient = [&](const at::Tensor& y) {
    y.backward();
    return std::exchange(weight.mutable_grad(), at::Tensor()).cpu();
  };
  const auto plain = gradient(body());
  bool failed = true;
  for (int failing = 0; failed; ++failing) {
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {});
      y = body();
    }
    {
      const FailingAllocation scope(failing);
      tape::PatternFits fits;
      const auto end = static_cast<tape::OpId>(tape->ops().size());
      EXPECT_NO_THROW(tape::verify(*tape, 0, end, true, fits));
      failed = FailingAllocation::has_failed();
    }
    EXPECT_EQ(tape->findings().verification_was_short, failed) << "allocation " << failing;
    tape->seal();
    EXPECT_TRUE(same_bits(plain, gradient(y))) << "allocation " << failing;
  }
}

}  // namespace
}  // namespace gradrecomp::test
