// Conformance H1: borrowed memory that begins beyond what is aligned, as weights in a mapped file
// do.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <functional>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

/// Lent floats that begin a few elements beyond an aligned address, as weights in a mapped file do.
class Misaligned {
 public:
  explicit Misaligned(std::int64_t shift) : shift_(shift) {}

  at::Tensor filled_like(const at::Tensor& numbers) {
    memory_ = torch::empty({numbers.numel() + shift_});
    float* const begin = memory_.data_ptr<float>() + shift_;
    std::memcpy(begin, numbers.const_data_ptr(), numbers.nbytes());
    return torch::from_blob(begin, numbers.sizes());
  }

 private:
  std::int64_t shift_;
  at::Tensor memory_;
};

/// For each place of memory within what is aligned; sums are of another order at some.
void expect_same_wherever_it_begins(
    const std::function<HostileProgram(std::int64_t shift)>& program) {
  for (const std::int64_t shift : {1, 2, 3, 5}) {
    SCOPED_TRACE(shift);
    expect_same_in_every_mode(program(shift));
  }
}

/// Steps of `step(run, matrix, vector, weight)`, where the matrix is lent.
HostileProgram steps_of(std::int64_t shift,
                        void (*step)(const RunPart& run, const at::Tensor& matrix,
                                     const at::Tensor& vector, const at::Tensor& weight)) {
  return [=](const RunPart& run) {
    auto weight = torch::randn({130}).requires_grad_();
    Tensors all;
    for (int i = 0; i < 4; ++i) {
      Misaligned memory(shift);
      step(run, memory.filled_like(torch::randn({130, 130})), torch::randn({130}), weight);
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

TEST(MisalignedMemory, H1CopiedForReplaysLiesLikeTheOriginal) {
  expect_same_wherever_it_begins([](std::int64_t shift) {
    return steps_of(shift, [](const RunPart& run, const at::Tensor& matrix,
                              const at::Tensor& vector, const at::Tensor& weight) {
      at::Tensor scaled;
      const auto other = run([&] {
        scaled = matrix * weight;
        return (weight * matrix.mv(vector)).tanh();
      });
      scaled.sum().backward();
      other.sin().sum().backward();
    });
  });
}

TEST(MisalignedMemory, H1OverwrittenInTheRegionIsCopiedToMemoryThatLiesLikeIt) {
  expect_same_wherever_it_begins([](std::int64_t shift) {
    return steps_of(shift, [](const RunPart& run, const at::Tensor& matrix,
                              const at::Tensor& vector, const at::Tensor& weight) {
      const auto y = run([&] {
        // Backward never runs through this, but saves the matrix, so that others replay from it.
        const auto unused = (matrix * weight).sum();
        const auto product = weight * matrix.mv(vector);
        {
          const torch::NoGradGuard no_grad;
          matrix.mul_(1.01);
        }
        return product.tanh() + unused.detach();
      });
      y.sin().sum().backward();
    });
  });
}

// No node saves the weight, so its copy is read.
TEST(MisalignedMemory, H1SmallWeightsAreCopiedToMemoryThatLiesLikeTheirs) {
  for (const bool is_part : {false, true}) {
    expect_same_wherever_it_begins([=](std::int64_t shift) -> HostileProgram {
      return [=](const RunPart& run) {
        Misaligned memory(is_part ? 0 : shift);
        const auto all_numbers = memory.filled_like(torch::randn({900 + shift}));
        auto weight = all_numbers.narrow(0, is_part ? shift : 0, 900).view({30, 30}).detach();
        weight.requires_grad_();
        const auto u = torch::randn({1, 30});
        Tensors all;
        for (int step = 0; step < 4; ++step) {
          run([&] { return torch::linear(u, weight).exp().tanh(); }).sum().backward();
          all.push_back(gradient_of(weight));
        }
        return all;
      };
    });
  }
}

}  // namespace
}  // namespace gradrecomp::test
