// Conformance H2, H5: operators that choose by what their schemas do not show, or write less than
// those say.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

HostileProgram steps_of(const std::function<at::Tensor(const at::Tensor& hidden, int step)>& body) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({15, 16});
      const auto y = run([&] { return body(x.mm(weight).tanh(), step); });
      const auto rubbish = torch::full({15, 16}, 7.0);
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

// oneDNN's layer computes otherwise where no gradient is wanted, as of a teacher.
TEST(KernelChoice, H5OfALayerWithoutGradientsIsThatOfTheForwardPass) {
  torch::nn::LSTM teacher(torch::nn::LSTMOptions(16, 16));
  expect_same_in_every_mode(steps_of([teacher](const at::Tensor& hidden, int /*step*/) mutable {
    at::Tensor taught;
    {
      const torch::NoGradGuard no_gradients;
      taught = std::get<0>(teacher->forward(hidden.detach().view({5, 3, 16}))).view({15, 16});
    }
    const auto sum = (hidden + taught).tanh();
    return (sum * sum.exp()).sum();
  }));
}

// In evaluation rrelu_with_noise() leaves the noise as it is, though its schema says that it writes
// it.
TEST(KernelChoice, H2WhatAnOperatorOnlySaysThatItWritesIsKept) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, int step) {
    auto noise = torch::empty({15, 16});
    for (int i = 0; i < noise.numel(); ++i) {
      noise.mutable_data_ptr<float>()[i] = 0.01F * static_cast<float>(i + step);
    }
    const auto noisy = at::rrelu_with_noise(hidden.detach(), noise, 0.125, 0.33, false);
    return (hidden.exp() * noise * noisy).tanh().sum();
  }));
}

// Within at::parallel_for() kernels use one thread, and add up in an order different from that of
// several.
TEST(KernelChoice, H5InAParallelLoopIsThatOfTheForwardPass) {
  const int num_threads = at::get_num_threads();
  at::set_num_threads(2);
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = (torch::randn({512}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({256, 512});
      at::Tensor y;
      at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
        if (begin > 0 || end == 0) return;
        const torch::AutoGradMode gradients(true);
        y = run([&] {
          const auto h = (x * weight).tanh();
          const auto sum = (h * h).sum();
          return sum * sum.sqrt() * 1e-3 + (h.exp().sum() * h.sum()).tanh();
        });
      });
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
  at::set_num_threads(num_threads);
}

}  // namespace
}  // namespace gradrecomp::test
