// Conformance C1 to C4: several threads, backward passes within backward passes.
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "gradrecomp/checkpoint.h"
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

// Two losses over a common trunk.
Tensors two_losses(const at::Tensor& x) {
  at::Tensor y = x;
  for (int i = 0; i < 6; ++i) y = y.sin().exp().tanh();
  return {y.cos().sum(), (y * y.sigmoid()).sum()};
}

at::Tensor gradient(const at::Tensor& loss, const at::Tensor& x) {
  return torch::autograd::grad({loss}, {x}, {}, true)[0];
}

TEST(Concurrency, C1TwoBackwardThreadsThroughOneRegion) {
  const auto x = torch::randn({16}).requires_grad_();
  const auto expected = two_losses(x);
  const Tensors plain = {gradient(expected[0], x), gradient(expected[1], x)};
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 20; ++step) {  // the first one is profiled
    const auto losses = region.run([&] { return two_losses(x); });
    Tensors gradients(2);
    {
      std::jthread other([&] { gradients[0] = gradient(losses[0], x); });
      gradients[1] = gradient(losses[1], x);
    }
    expect_same_bits(plain, gradients);
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

TEST(Concurrency, C1BackwardOfEarlierStepsWhileTheNextOneRuns) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 4), nn::GELU());
  const auto input = [](int step) { return torch::full({2, 4}, 0.1 * step).requires_grad_(); };
  const auto forward = [&](const at::Tensor& x) { return model->forward(x).sum(); };
  Region region({.policy = "drop_all"});
  gradient(region.run([&] { return forward(input(0)); }), model->parameters()[0]);
  std::jthread backward;
  Tensors gradients(10);
  for (int step = 0; step < 10; ++step) {
    const auto x = input(step);
    const auto loss = region.run([&] { return forward(x); });
    backward = std::jthread([&gradients, step, loss, x] { gradients[step] = gradient(loss, x); });
  }
  backward.join();
  for (int step = 0; step < 10; ++step) {
    const auto x = input(step);
    EXPECT_TRUE(same_bits(gradients[step], gradient(forward(x), x))) << "step " << step;
  }
}

// Replays set the generator back, which all of these draw from.
TEST(Concurrency, C1DropoutInTwoBackwardThreadsAndInTheForwardOfTheNextStep) {
  const auto x = torch::full({64, 1024}, 0.5).requires_grad_();
  const auto forward = [&] {
    auto y = x * 1;
    for (int i = 0; i < 12; ++i) y = torch::dropout(y, 0.1, true).exp().tanh();
    return y.sum();
  };
  const auto steps = [&](bool threads, const auto& wrap) {
    torch::manual_seed(3);
    Tensors results(8);
    std::vector<std::jthread> backward;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto loss = wrap(forward);
      backward.emplace_back([&results, &x, i, loss] { results[i] = gradient(loss, x); });
      if (!threads) backward.back().join();
    }
    for (auto& thread : backward) {
      if (thread.joinable()) thread.join();
    }
    results.push_back(at::globalContext().defaultGenerator(c10::kCPU).get_state());
    return results;
  };
  const auto plain = steps(false, [](const auto& body) { return body(); });
  expect_same_bits(plain, steps(true, [](const auto& body) { return detail::run_dropped(body); }));
}

// Parameters of a small model after a few steps, from its own seed and data.
Tensors trained(int seed, const Wrap& wrap) {
  auto generator = at::detail::createCPUGenerator(seed);
  nn::Sequential model(nn::Linear(6, 6), nn::GELU(), nn::Linear(6, 6), nn::Tanh());
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.3, generator);
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  for (int step = 0; step < 20; ++step) {
    const auto x = at::normal(0, 1, {5, 6}, generator);
    const torch::AutoGradMode with_grad(true);
    optimizer.zero_grad();
    one(wrap)([&] { return model->forward(x); }).pow(2).sum().backward();
    optimizer.step();
  }
  Tensors parameters;
  for (const auto& parameter : model->parameters()) parameters.push_back(parameter.detach());
  return parameters;
}

TEST(Concurrency, C2TwoThreadsTrainTwoModels) {
  const Wrap plainly = [](const auto& body) { return body(); };
  const Tensors plain[] = {trained(0, plainly), trained(1, plainly)};
  Tensors wrapped[2];
  std::int64_t num_replayed_ops[2] = {};
  const auto train_in_region = [&](int i) {
    Region region({.policy = i == 0 ? "drop_all" : "every_1"});
    wrapped[i] = trained(i, [&](const auto& body) { return region.run(body); });
    num_replayed_ops[i] = region.last_step().num_replayed_ops;
  };
  {
    const std::jthread first(train_in_region, 0);
    const std::jthread second(train_in_region, 1);
  }
  for (int i = 0; i < 2; ++i) {
    expect_same_bits(plain[i], wrapped[i]);
    EXPECT_GT(num_replayed_ops[i], 0) << "thread " << i;
  }
}

// The hook's own backward runs while the outer one is under way.
TEST(Concurrency, C3BackwardFromInsideAGradientHook) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({5}).requires_grad_();
    const auto z = torch::randn({5}).requires_grad_();
    const auto loss = one(wrap)([&] {
      auto y = x.exp().sin();
      y.register_hook([&](at::Tensor incoming) {
        const torch::AutoGradMode with_grad(true);
        auto inner = checkpoint([](at::Tensor w) { return w.tanh().exp().sum(); }, z);
        inner.backward();
        return incoming * z.grad();
      });
      return y.cos().tanh().sum();
    });
    loss.backward();
    return Tensors{x.grad(), z.grad()};
  });
}

TEST(Concurrency, C3BackwardThroughTheSameRegionFromInsideAHook) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({5}).requires_grad_();
    const auto losses = wrap([&] { return two_losses(x); });
    Tensors inner;
    losses[0].register_hook([&](at::Tensor incoming) {
      inner.push_back(gradient(losses[1], x));
      return incoming;
    });
    losses[0].backward({}, true);
    return Tensors{x.grad(), inner.at(0)};
  });
}

TEST(Concurrency, C4WithoutTheThreadsOfAutograd) {
  auto& state = c10::AutogradState::get_tls_state();
  const bool before = state.get_multithreading_enabled();
  state.set_multithreading_enabled(false);
  expect_exact([] {
    return sequential(nn::Sequential(nn::Linear(4, 4), nn::Dropout(0.3), nn::Tanh()), {3, 4});
  });
  state.set_multithreading_enabled(before);
}

}  // namespace
}  // namespace gradrecomp::test
