// Conformance H1, H3: one memory under several tensors, and tensors that come to show another part
// of theirs.
#include <ATen/DLConvertor.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

/// Steps in which `shown` comes to show what `changed` does, of the same memory, before backward.
HostileProgram steps_that_show(const std::function<at::Tensor(const at::Tensor& flat)>& first,
                               const std::function<at::Tensor(const at::Tensor& flat)>& changed) {
  return [=](const RunPart& run) {
    const auto flat = torch::randn({2 * 64});
    const auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      auto shown = torch::empty({0});
      shown.set_data(first(flat));
      const auto x = torch::randn({8, 8});
      const auto y = run([&] { return x.mm(weight).tanh().mm(shown).sum(); });
      shown.set_data(changed(flat));
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

at::Tensor slot(const at::Tensor& flat, std::int64_t i) {
  return flat.narrow(0, 64 * i, 64).view({8, 8});
}

// A parameter in a flat buffer, a batch in a ring of them.
TEST(AliasedMemory, H3SetDataToAnotherPartOfTheSameIsWhatBackwardSees) {
  expect_same_in_every_mode(steps_that_show([](const at::Tensor& flat) { return slot(flat, 0); },
                                            [](const at::Tensor& flat) { return slot(flat, 1); }));
}

TEST(AliasedMemory, H3SetDataToTheTransposeIsWhatBackwardSees) {
  expect_same_in_every_mode(
      steps_that_show([](const at::Tensor& flat) { return slot(flat, 0); },
                      [](const at::Tensor& flat) { return slot(flat, 0).t(); }));
}

// A backward pass inside the region saves the leaf as it has unpacked it.
TEST(AliasedMemory, H3SetDataOfALeafThatABackwardInsideSavedIsWhatBackwardSees) {
  expect_same_in_every_mode([](const RunPart& run) {
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
      const auto x = torch::randn({4, 8});
      const auto y = run([&] {
        const auto inner = x.mm(weight).tanh().mm(weight).sum();
        const auto slope = torch::autograd::grad({inner}, {weight}, {}, true, true)[0];
        return x.mm(weight - slope * 0.1).tanh().sum();
      });
      weight.set_data(torch::full({8, 8}, 0.5));
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Steps of `body(x, weight, step)`, which runs in the region, on so many rows.
HostileProgram steps_that_write(std::int64_t num_rows,
                                at::Tensor (*body)(const at::Tensor& x, const at::Tensor& weight,
                                                   int step)) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({num_rows, 8});
      run([&] { return body(x, weight, step); }).sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

// Through a tensor of the program's own over the memory of what the region made.
TEST(AliasedMemory, H1AnOperatorThatWritesThroughABorrowedTensorIsSeen) {
  expect_same_in_every_mode(
      steps_that_write(4, [](const at::Tensor& x, const at::Tensor& weight, int step) {
        auto h = x.mm(weight).exp();
        torch::from_blob(h.data_ptr(), {4, 8}).mul_(2 + step);
        const auto u = (h + 1).exp();
        h.reset();
        return (u * u).sum();
      }));
}

// Autograd does not see that the alias has changed since it was saved.
TEST(AliasedMemory, H1AnOperatorThatWritesBelowABorrowedTensorIsSeen) {
  expect_same_in_every_mode(
      steps_that_write(8, [](const at::Tensor& x, const at::Tensor& weight, int /*step*/) {
        auto base = x * 2;
        const auto alias = at::fromDLPack(at::toDLPack(base));
        const auto before = (alias + weight).exp();
        base.add_(1);
        const auto after = (alias * weight).sin();
        base.mul_(0.5);
        return torch::tanh(before * after) * base;
      }));
}

}  // namespace
}  // namespace gradrecomp::test
