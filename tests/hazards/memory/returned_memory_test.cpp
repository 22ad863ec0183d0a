// Conformance H1: borrowed memory that its owner waits for.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

/// Buffers that come back as soon as no tensor shows them.
class SlotPool {
 public:
  SlotPool() : free_({torch::rand({4, 8}), torch::rand({4, 8})}) {}
  at::Tensor next() {
    TORCH_CHECK(!free_.empty(), "a loader would wait here for good");
    const at::Tensor slot = free_.back();
    free_.pop_back();
    return torch::from_blob(
        slot.data_ptr(), slot.sizes(), [this, slot](void*) { free_.push_back(slot); },
        torch::kFloat);
  }

 private:
  std::vector<at::Tensor> free_;
};

/// Steps of `body(pool, weight)`, which takes many slots of a pool of two.
HostileProgram steps_with_a_pool(
    const std::function<at::Tensor(SlotPool& pool, const at::Tensor& weight)>& body,
    const std::function<void(SlotPool& pool)>& after = {}) {
  return [=](const RunPart& run) {
    auto weight = torch::randn({8, 8}).requires_grad_();
    SlotPool pool;
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto y = run([&] { return body(pool, weight); });
      if (after) after(pool);
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

TEST(ReturnedMemory, H1GoesBackAsSoonAsTheGraphThatSavedItHasGone) {
  expect_same_in_every_mode(steps_with_a_pool([](SlotPool& pool, const at::Tensor& weight) {
    at::Tensor y = weight.sin();
    for (int i = 0; i < 5; ++i) {
      const auto x = pool.next();
      y = y + x.to(torch::kDouble).sum().item<double>() + (x * weight[0]).sum().item<float>();
    }
    return y.exp();
  }));
}

// What replays still read is copied then.
TEST(ReturnedMemory, H1GoesBackWhenAPartOfTheGraphGoesBeforeBackward) {
  at::Tensor unused;
  expect_same_in_every_mode(steps_with_a_pool(
      [&](SlotPool& pool, const at::Tensor& weight) {
        const auto mask = pool.next();
        const auto y = (weight * 2).tanh();
        unused = mask.mm(y);
        return (y.narrow(0, 0, 4) * mask.mul(3).sin()).tanh().exp();
      },
      [&](SlotPool& pool) {
        unused = at::Tensor();
        pool.next();
        pool.next();
      }));
}

// The plan may need to run again what reads it beside what the graph saved.
TEST(ReturnedMemory, H1GoesBackWhenAPartOfTheGraphGoesWithinTheRegion) {
  const auto with_head = [](const at::Tensor& mask, const at::Tensor& weight, auto use_head) {
    const auto rows = weight.narrow(0, 0, 4);
    at::Tensor head = (mask * rows).sin();
    const auto y = rows.tanh();
    const auto mean = (mask.mean() * y).sin().cos();
    const auto used = use_head(head);
    head = at::Tensor();
    return mean.exp() * y * used;
  };
  expect_same_in_every_mode(steps_with_a_pool([&](SlotPool& pool, const at::Tensor& weight) {
    at::Tensor sum = weight.sin().narrow(0, 0, 4);
    for (int i = 0; i < 3; ++i) {
      sum = sum + with_head(pool.next(), weight, [](const at::Tensor&) { return 2; });
    }
    return sum;
  }));
  expect_same_in_every_mode(steps_with_a_pool([&](SlotPool& pool, const at::Tensor& weight) {
    const auto mask = pool.next();
    const auto gradient = [&](const at::Tensor& head) {
      return torch::autograd::grad({head.sum()}, {weight})[0].narrow(0, 0, 4);
    };
    // Read once more, by then for the graph that stays.
    return with_head(mask, weight, gradient) * (mask * weight.narrow(0, 0, 4)).sin() +
           (mask.mean() * weight.narrow(0, 4, 4)).exp();
  }));
}

TEST(ReturnedMemory, H1GoesBackAsSoonAsTheProgramLetsGoOfIt) {
  expect_same_in_every_mode(steps_with_a_pool([](SlotPool& pool, const at::Tensor& weight) {
    at::Tensor sum = torch::zeros({4, 8});
    for (int batch = 0; batch < 5; ++batch) {
      const auto x = pool.next() * 2;
      sum = sum + torch::gelu(x.mm(weight)).sin();
      pool.next().mul_(1.5);
    }
    return sum;
  }));
}

}  // namespace
}  // namespace gradrecomp::test
