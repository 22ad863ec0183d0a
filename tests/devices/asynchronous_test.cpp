// The library on devices that do their work late or at random moments: where it does not wait for
// what it needs, or frees what is still read, bits differ.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "devices/streams.h"
#include "gradrecomp/memory_meter.h"
#include "gradrecomp/models/bert.h"
#include "support/host_device/host_device.h"
#include "support/plans.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

/// Seed 0: as late as something waits.
class Asynchronous : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  const AsynchronousDevice mode_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Seeds, Asynchronous, ::testing::Range<std::uint64_t>(0, 6));

template <typename Model>
Model moved(Model model, c10::Device device = kHostDevice) {
  move_to_host_device(*model, device);
  return model;
}

nn::Sequential convolutions(c10::Device device = kHostDevice) {
  return moved(
      nn::Sequential(nn::Conv2d(3, 8, 3), nn::BatchNorm2d(8), nn::ReLU(nn::ReLUOptions(true)),
                     nn::Conv2d(8, 8, 3), nn::Dropout(0.3), nn::GELU(), nn::MaxPool2d(2),
                     nn::Flatten(), nn::Linear(8 * 6 * 6, 5)),
      device);
}

at::Tensor images(c10::Device device = kHostDevice) {
  return torch::randn({2, 3, 16, 16}).to(device);
}

Tensors gradients(const nn::Module& model) {
  Tensors all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.grad().cpu());
  for (const auto& buffer : model.buffers()) all.push_back(buffer.cpu());
  return all;
}

/// Does what runs in its scope on a stream of its own, between what the current one does.
class OnSideStream {
 public:
  explicit OnSideStream(const c10::Stream& side)
      : present_(devices().getStream(side.device())),
        side_(side),
        guard_((wait_for(present_, side), side)) {}
  ~OnSideStream() { wait_for(side_, present_); }
  OnSideStream(const OnSideStream&) = delete;
  OnSideStream& operator=(const OnSideStream&) = delete;

 private:
  c10::Stream present_;
  c10::Stream side_;
  c10::StreamGuard guard_;
};

Tensors steps_of_convolutions(const Wrap& wrap) {
  auto model = convolutions();
  for (int step = 0; step < 3; ++step) {
    const auto x = images();
    one(wrap)([&] { return model->forward(x); }).exp().sum().backward();
  }
  return gradients(*model);
}

TEST_P(Asynchronous, StepsAreTheSame) { expect_same_step(steps_of_convolutions); }

TEST_P(Asynchronous, StepsAreTheSameWithKernels) {
  const KernelsOfDevice kernels;
  expect_same_step(steps_of_convolutions);
}

TEST_P(Asynchronous, StepsOfABertAreTheSameWithKernels) {
  const KernelsOfDevice kernels;
  expect_same_step([](const Wrap& wrap) {
    auto model = moved(models::BertModel(models::BertOptions{.vocab_size = 50,
                                                             .hidden_size = 16,
                                                             .num_layers = 2,
                                                             .num_heads = 2,
                                                             .intermediate_size = 32,
                                                             .max_positions = 16}));
    for (int step = 0; step < 2; ++step) {
      const auto forward = [&, x = torch::randint(0, 50, {2, 8}).to(kHostDevice)]() mutable {
        for (auto& stage : model->stages()) x = stage.forward(x);
        return x;
      };
      one(wrap)(forward).pow(2).sum().backward();
    }
    return gradients(*model);
  });
}

/// Trains `steps` plainly and then with each policy, and expects the same bits.
void expect_same_under_every_policy(const std::function<Tensors(const Wrap&)>& steps) {
  torch::manual_seed(7);
  const auto plain = steps([](const auto& body) { return body(); });
  std::int64_t num_replayed_ops = 0;
  for (const Options& options : every_policy()) {
    SCOPED_TRACE(options.policy ? options.policy->name() : "budget");
    Region region(options);
    torch::manual_seed(7);
    expect_same_bits(plain, steps([&](const auto& body) { return region.run(body); }));
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  EXPECT_GT(num_replayed_ops, 0);
}

TEST_P(Asynchronous, StepsAreTheSameUnderEveryPolicy) {
  expect_same_under_every_policy(steps_of_convolutions);
}

// Plain steps leave what they have held to the allocator.
TEST_P(Asynchronous, AProfiledStepGivesFreeMemoryBack) {
  const auto x = torch::randn({256, 256}).to(kHostDevice).requires_grad_();
  const auto free_bytes_after = [&](const Wrap& wrap) {
    one(wrap)([&] { return x.exp().sin().tanh().sin(); }).sum().backward();
    const auto memory = device_memory(kHostDevice);
    return memory.reserved.current_bytes - memory.allocated.current_bytes;
  };
  const auto after_plain = free_bytes_after([](const auto& body) { return body(); });
  Region region({.policy = "drop_all"});
  EXPECT_LT(free_bytes_after([&](const auto& body) { return region.run(body); }), after_plain / 2);
}

TEST_P(Asynchronous, OffloadedValuesComeBackTheSame) {
  torch::manual_seed(7);
  const auto plain = steps_of_convolutions([](const auto& body) { return body(); });
  Region first({.policy = "keep_all"});
  torch::manual_seed(7);
  steps_of_convolutions([&](const auto& body) { return first.run(body); });
  Region region({.plan = shared(all_away(first.graph()))});
  torch::manual_seed(7);
  expect_same_bits(plain,
                   steps_of_convolutions([&](const auto& body) { return region.run(body); }));
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
}

TEST_P(Asynchronous, RegionsOnASideStreamAreTheSame) {
  const auto side = side_stream();
  expect_same_under_every_policy([&](const Wrap& wrap) {
    auto model = convolutions();
    for (int step = 0; step < 3; ++step) {
      const auto x = images();
      at::Tensor y;
      {
        const OnSideStream there(side);
        y = one(wrap)([&] { return model->forward(x); });
      }
      y.exp().sum().backward();
    }
    return gradients(*model);
  });
}

/// `body` of a tensor on a stream of its own. What crosses streams is recorded, as LibTorch asks
/// for.
at::Tensor done_on(const c10::Stream& side, const at::Tensor& x,
                   const std::function<at::Tensor(const at::Tensor&)>& body) {
  at::Tensor made;
  {
    const OnSideStream there(side);
    devices().recordDataPtrOnStream(x.storage().data_ptr(), side);
    made = body(x);
  }
  devices().recordDataPtrOnStream(made.storage().data_ptr(), main_stream());
  return made;
}

/// Three steps of a function of one tensor.
std::function<Tensors(const Wrap&)> steps_of(
    const std::function<at::Tensor(const at::Tensor&)>& forward) {
  return [=](const Wrap& wrap) {
    Tensors results;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({32}).to(kHostDevice).requires_grad_();
      one(wrap)([&] { return forward(x); }).sum().backward();
      results.push_back(x.grad().cpu());
    }
    return results;
  };
}

TEST_P(Asynchronous, SideStreamsInsideOfARegionAreTheSame) {
  const std::vector<c10::Stream> sides = {side_stream(), side_stream()};
  expect_same_under_every_policy(steps_of([&](const at::Tensor& x) {
    const auto half = x.exp().sin();
    at::Tensor sum = half.cos();
    for (const auto& side : sides) {
      sum = sum + done_on(side, half, [](const auto& y) { return (y * 2).tanh().sigmoid(); }).exp();
    }
    return sum;
  }));
}

TEST_P(Asynchronous, SideStreamsInsideOfARegionAreTheSameWithKernels) {
  const KernelsOfDevice kernels;
  const auto side = side_stream();
  expect_same_under_every_policy(steps_of([&](const at::Tensor& x) {
    const auto half = x.exp();
    const auto pointwise = [](const at::Tensor& y) { return ((y * 2).relu() + 1).relu().sin(); };
    return half * done_on(side, half, pointwise).exp();
  }));
}

// In backward both streams have their gradients before either asks for what both have saved.
TEST_P(Asynchronous, WhatTwoStreamsHaveSavedIsTheSame) {
  const std::vector<c10::Stream> sides = {side_stream(), side_stream()};
  expect_same_under_every_policy(steps_of([&](const at::Tensor& x) {
    const auto half = x.exp().sin();
    Tensors parts;
    for (const auto& side : sides) {
      parts.push_back(done_on(side, half, [](const auto& y) { return y * y; }));
    }
    return parts[0].exp() + parts[1].exp();
  }));
}

/// x * x, whose backward pass waits until its stream has done what it was given.
struct SquaredAtOnce : torch::autograd::Function<SquaredAtOnce> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto gradient = gradients[0] * context->get_saved_variables()[0] * 2;
    devices().getStream(gradient.device()).synchronize();
    return {gradient};
  }
};

// What one stream has had replayed, another may ask for before that replay has been done. The
// program records no use of it, as the main stream waits for both before it lets go.
TEST_P(Asynchronous, WhatAReplayForAnotherStreamMadeIsTheSame) {
  const auto first = side_stream();
  const auto second = side_stream();
  const auto record_on_main = [](const at::Tensor& made) {
    devices().recordDataPtrOnStream(made.storage().data_ptr(), main_stream());
    return made;
  };
  expect_same_under_every_policy(steps_of([&](const at::Tensor& x) {
    const auto half = x.exp().sin();
    at::Tensor at_once;
    at::Tensor late;
    {
      const OnSideStream there(first);
      at_once = record_on_main(SquaredAtOnce::apply(half));
    }
    {
      const OnSideStream there(second);
      late = record_on_main(half * half);
    }
    // In backward the last comes first, so the main stream has a lot to do before the replay.
    for (int i = 0; i < 8; ++i) late = late.sin().cos();
    return late + at_once.exp();
  }));
}

TEST_P(Asynchronous, BackwardOnASideStreamIsTheSame) {
  const auto side = side_stream();
  expect_same_under_every_policy([&](const Wrap& wrap) {
    auto model = convolutions();
    for (int step = 0; step < 3; ++step) {
      const auto y = one(wrap)([&] { return model->forward(images()); }).exp().sum();
      const OnSideStream there(side);
      y.backward();
    }
    return gradients(*model);
  });
}

TEST_P(Asynchronous, RegionsOfTwoDevicesAreTheSame) {
  expect_same_under_every_policy([](const Wrap& wrap) {
    auto front = moved(nn::Sequential(nn::Linear(16, 32), nn::GELU(), nn::Linear(32, 32)));
    auto back =
        moved(nn::Sequential(nn::Linear(32, 32), nn::Tanh(), nn::Dropout(0.2)), kOtherHostDevice);
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({8, 16}).to(kHostDevice);
      one(wrap)([&] { return back->forward(front->forward(x).exp().to(kOtherHostDevice)).sin(); })
          .pow(2)
          .sum()
          .backward();
    }
    auto all = gradients(*front);
    for (const auto& gradient : gradients(*back)) all.push_back(gradient);
    return all;
  });
}

TEST_P(Asynchronous, RegionsOnTheOtherDeviceAreTheSame) {
  expect_same_under_every_policy([](const Wrap& wrap) {
    auto model = convolutions(kOtherHostDevice);
    for (int step = 0; step < 3; ++step) {
      const auto x = images(kOtherHostDevice);
      one(wrap)([&] { return model->forward(x); }).exp().sum().backward();
    }
    return gradients(*model);
  });
}

TEST_P(Asynchronous, APlanThatMayOffloadByMeasuredTimesIsTheSame) {
  Region region({.max_overhead = 0.02, .offload = true});
  torch::manual_seed(7);
  const auto plain = steps_of_convolutions([](const auto& body) { return body(); });
  torch::manual_seed(7);
  expect_same_bits(plain,
                   steps_of_convolutions([&](const auto& body) { return region.run(body); }));
}

// The program waits for its own copy, in its own way. A replay makes another.
Tensors steps_over_the_host(const Wrap& wrap) {
  const auto weight = torch::randn({64}).to(kHostDevice).requires_grad_();
  Tensors all;
  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({64}).to(kHostDevice);
    const auto y = wrap([&] {
      const auto copied = (x * weight).to(at::kCPU, /*non_blocking=*/true);
      const auto filled = torch::empty({64}, torch::TensorOptions().pinned_memory(true));
      filled.copy_((x + weight).sin(), /*non_blocking=*/true);
      devices().synchronizeStream(devices().getStream(kHostDevice));
      return Tensors{(copied.exp().sin() * filled.exp().cos()).sum()};
    });
    y[0].backward();
    all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()).cpu());
  }
  return all;
}

TEST_P(Asynchronous, CopiesToTheHostAreThereWhenReplaysReadThem) {
  expect_same_under_every_policy(steps_over_the_host);
}

}  // namespace
}  // namespace gradrecomp::test
