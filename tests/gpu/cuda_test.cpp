// Conformance on a CUDA device: C5, C6 and what other ids ask for there.
#ifdef GRADRECOMP_CUDA_GRAPHS
#include <ATen/cuda/CUDAGraph.h>
#endif
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/kernels/table.h"
#include "gradrecomp/memory_meter.h"
#include "gradrecomp/models/resnet.h"
#include "support/live_memory.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      GTEST_SKIP() << "there is no CUDA device, or LibTorch's CUDA backend is not loaded";
    }
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicCuDNN(true);
  }

  static c10::Stream side_stream() {
    return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool({c10::kCUDA, 0});
  }
};

nn::Sequential convolutions() {
  nn::Sequential model(nn::Conv2d(3, 8, 3), nn::BatchNorm2d(8), nn::ReLU(nn::ReLUOptions(true)),
                       nn::Conv2d(8, 8, 3), nn::Dropout(0.3), nn::GELU(), nn::Flatten(),
                       nn::Linear(8 * 12 * 12, 5));
  model->to(torch::kCUDA);
  return model;
}

Tensors gradients(const nn::Sequential& model) {
  Tensors all;
  for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
  for (const auto& buffer : model->buffers()) all.push_back(buffer);
  return all;
}

TEST_F(Cuda, E1AndE6ConvolutionsWithDropoutAreTheSame) {
  expect_same_step([](const Wrap& wrap) {
    auto model = convolutions();
    for (int step = 0; step < 3; ++step) {
      const auto images = torch::randn({2, 3, 16, 16}, torch::kCUDA);
      one(wrap)([&] { return model->forward(images); }).exp().sum().backward();
    }
    return gradients(model);
  });
}

TEST_F(Cuda, E6TheGeneratorOfTheDeviceEndsWhereItEndsPlainly) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({64}, torch::kCUDA).requires_grad_();
    const auto y = one(wrap)([&] { return torch::dropout(x.exp(), 0.5, true).sin(); });
    y.sum().backward();
    return Tensors{x.grad(), torch::rand({8}, torch::kCUDA)};
  });
}

// Kept values go to pinned memory and come back beside the device's work, of which much is queued:
// a copy that waits for nothing would read what is not there yet.
TEST_F(Cuda, OffloadedValuesSurviveALongQueueOfWork) {
  const auto weight = torch::randn({512, 512}, torch::kCUDA);
  expect_same_step([&](const Wrap& wrap) {
    const auto x = torch::randn({512, 512}, torch::kCUDA).requires_grad_();
    auto busy = torch::randn({4096, 4096}, torch::kCUDA);
    for (int i = 0; i < 200; ++i) busy = torch::tanh(busy.matmul(busy));
    const auto y = one(wrap)([&] {
      auto z = x + busy.narrow(0, 0, 512).narrow(1, 0, 512);
      for (int i = 0; i < 12; ++i) z = torch::tanh(z.matmul(weight).t());
      return z;
    });
    y.sum().backward();
    return Tensors{x.grad()};
  });
}

// In benchmark mode cuDNN times its algorithms anew in each thread, and replays run in autograd's.
TEST_F(Cuda, E1ConvolutionsInBenchmarkModeAreReplayedByTheSameAlgorithm) {
  at::globalContext().setBenchmarkCuDNN(true);
  auto model = convolutions();
  const auto images = torch::randn({8, 3, 16, 16}, torch::kCUDA);
  const auto gradients_under = [&](const Options& options) {
    Region region(options);
    for (int step = 0; step < 3; ++step) {
      torch::manual_seed(3);
      model->zero_grad();
      region.run([&] { return model->forward(images); }).sum().backward();
    }
    Tensors all;
    for (const auto& parameter : model->parameters()) all.push_back(parameter.grad().clone());
    return std::pair(all, region.last_step().num_replayed_ops);
  };
  const auto [kept, no_replays] = gradients_under({.policy = "keep_all"});
  const auto [dropped, num_replays] = gradients_under({.policy = "drop_all"});
  at::globalContext().setBenchmarkCuDNN(false);
  expect_same_bits(kept, dropped);
  EXPECT_EQ(no_replays, 0);
  EXPECT_GT(num_replays, 0);
}

TEST_F(Cuda, H3WritesPastTheVersionBetweenForwardAndBackwardAreFound) {
  if (kernels::table(c10::kCUDA) == nullptr) GTEST_SKIP() << "GradRecomp's kernels were not built";
  const auto weight = torch::randn({1024, 1024}, torch::kCUDA) * 0.01;
  for (const bool is_written : {false, true}) {
    const auto x = torch::randn({64, 1024}, torch::kCUDA).requires_grad_();
    Region region({.policy = "drop_all"});
    const auto forward = [&] {
      return region.run([&] { return torch::tanh(x.matmul(weight)).exp(); });
    };
    // The first step replays nothing of its last window; one that begins with a gradient is
    // another.
    forward().sum().backward();
    x.mutable_grad() = at::Tensor();
    const auto y = forward();
    if (is_written) weight.data()[1023][1023].add_(1);
    if (is_written) {
      EXPECT_THROW(y.sum().backward(), c10::Error);
    } else {
      EXPECT_NO_THROW(y.sum().backward());
    }
  }
}

// Atomic sums have other bits each time, so what they gave in forward is what backward has to see.
TEST_F(Cuda, E1SumsThatAreNotDeterministicAreNotMadeAgain) {
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  const auto index =
      torch::zeros({1 << 16}, torch::TensorOptions(torch::kLong).device(torch::kCUDA));
  for (const char* policy : {"drop_all", "keep_all"}) {
    Region region({.policy = policy});
    for (int step = 0; step < 2; ++step) {
      const auto x = torch::randn({1 << 16}, torch::kCUDA).requires_grad_();
      at::Tensor sum;
      const auto y = region.run([&] {
        sum = torch::zeros({1}, torch::kCUDA).scatter_add(0, index, x * 1.5);
        return sum.sin();
      });
      y.sum().backward();
      const auto expected = (sum.detach().cos() * 1.5).expand_as(x).contiguous();
      EXPECT_TRUE(same_bits(expected, x.grad())) << policy << ", step " << step;
    }
  }
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
}

TEST_F(Cuda, JoinedOpsAreTheSame) {
  for (const auto type : {at::kFloat, at::kHalf}) {
    expect_same_step([type](const Wrap& wrap) {
      const auto options = at::TensorOptions().device(c10::kCUDA).dtype(type);
      const auto x = torch::randn({33, 65}, options).requires_grad_();
      const auto other = torch::randn({33, 65}, options);
      const auto y = one(wrap)([&] {
        auto z = torch::relu(x.sin() * 0.7 + other) * (other > 0);
        return (torch::dropout(z.mul_(1.3), 0.4, true) + other).sin();
      });
      y.sum().backward();
      return Tensors{x.grad()};
    });
  }
}

TEST_F(Cuda, M3PredictedPeakIsWithinOnePercentOfRequestedBytes) {
  auto model = models::resnet18(10);
  model->to(torch::kCUDA);
  const auto images = torch::randn({16, 3, 64, 64}, torch::kCUDA);
  preallocate_gradients(*model);
  const auto run_in = [&](Region& region) {
    return peak_of([&] { return region.run([&] { return model->forward(images); }).pow(2).sum(); },
                   {c10::kCUDA, 0});
  };
  Region first({.policy = "keep_all"});
  for (int step = 0; step < 2; ++step) run_in(first);  // workspaces are there then
  for (const double max_overhead : {0.0, 0.1, 0.5}) {
    Region region({.max_overhead = max_overhead, .cost = plan::CostModel::flops});
    run_in(region);
    const auto predicted = static_cast<double>(region.plan().predicted_peak_bytes);
    const auto measured = static_cast<double>(run_in(region));
    EXPECT_NEAR(measured, predicted, 0.01 * predicted) << region.brief_report();
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
  }
}

TEST_F(Cuda, OffloadTakesDeviceMemoryOnlyWhileItIsNeeded) {
  auto model = convolutions();
  const auto images = torch::randn({64, 3, 16, 16}, torch::kCUDA);
  const auto peak_of = [&](const Options& options) {
    CheckpointedSequential net(model, options);
    std::int64_t peak = 0;
    for (int step = 0; step < 4; ++step) {
      net->zero_grad(/*set_to_none=*/false);
      const MemoryMeter meter({c10::kCUDA, 0});
      net->forward(images).sum().backward();
      peak = meter.measured_peak_bytes();
    }
    return peak;
  };
  const auto without = peak_of({.max_overhead = 0.0});
  EXPECT_LE(peak_of({.max_overhead = 1.0, .offload = true}), without);
}

TEST_F(Cuda, I1WrappedModelMovesToTheDevice) {
  torch::manual_seed(2);
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 2));
  CheckpointedSequential net(model, {.policy = "drop_all"});
  net->forward(torch::randn({3, 4})).sum().backward();
  net->to(torch::kCUDA);
  net->zero_grad();
  const auto x = torch::randn({3, 4}, torch::kCUDA);
  model->forward(x).sum().backward();
  const auto plain = model->parameters()[0].grad().clone();
  for (int step = 0; step < 2; ++step) {
    net->zero_grad();
    net->forward(x).sum().backward();
    EXPECT_TRUE(same_bits(plain, net->parameters()[0].grad()));
  }
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
}

TEST_F(Cuda, C5ForwardOnASideStreamAndBackwardFromTheDefaultOne) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({1 << 20}, torch::kCUDA).requires_grad_();
    const auto side = side_stream();
    at::Tensor y;
    {
      const c10::impl::VirtualGuardImpl devices(c10::kCUDA);
      const auto before = devices.getStream({c10::kCUDA, 0});
      devices.synchronizeStream(before);
      const c10::StreamGuard guard(side);
      y = one(wrap)([&] { return x.exp().sin().tanh().cos(); });
      devices.synchronizeStream(side);
    }
    y.sum().backward();
    return Tensors{x.grad()};
  });
}

#ifdef GRADRECOMP_CUDA_GRAPHS
// Captures one step and replays it three times on other data.
TEST_F(Cuda, C6StepCapturedInAGraphIsReplayedThreeTimes) {
  expect_same_step([](const Wrap& wrap) {
    const c10::StreamGuard guard(side_stream());
    nn::Sequential model(nn::Linear(8, 8), nn::GELU(), nn::Dropout(0.3), nn::Linear(8, 8),
                         nn::Tanh());
    model->to(torch::kCUDA);
    const auto x = torch::zeros({4, 8}, torch::kCUDA).requires_grad_();
    const auto forward = [&] {
      const auto heads = model->forward(x).view({1, 2, 2, 8});
      return torch::scaled_dot_product_attention(heads, heads, heads, {}, 0.2).sin();
    };
    const auto step = [&] {
      const auto y = one(wrap)(forward);
      return torch::autograd::grad({y.exp().sum()}, {x, model->parameters()[0]});
    };
    for (int warm_up = 0; warm_up < 3; ++warm_up) step();
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const auto gradients = step();
    graph.capture_end();
    Tensors all;
    for (int replay = 0; replay < 3; ++replay) {
      x.data().copy_(torch::randn({4, 8}));
      graph.replay();
      for (const auto& gradient : gradients) all.push_back(gradient.clone());
    }
    torch::cuda::synchronize();  // they are compared on another stream
    return all;
  });
}
#else
TEST_F(Cuda, C6StepCapturedInAGraphIsReplayedThreeTimes) {
  GTEST_SKIP() << "built without CUDA's headers or without GRADRECOMP_CUDA_BACKEND";
}
#endif

}  // namespace
}  // namespace gradrecomp::test
