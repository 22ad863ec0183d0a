// Conformance R6: out of the small memory that the library and LibTorch's autograd take by new.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "gradrecomp/region.h"
#include "support/training.h"

namespace {

// Of this thread, until one fails; negative: none does.
thread_local int num_left = -1;

bool fails() {
  if (num_left < 0) return false;
  return num_left-- == 0;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* block = fails() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t /*bytes*/) noexcept { std::free(block); }

namespace gradrecomp::test {
namespace {

at::Tensor forward(const at::Tensor& weight) {
  at::Tensor h = weight;
  for (int i = 0; i < 4; ++i) h = torch::dropout(h.mm(weight).tanh().exp().sin(), 0.3, true);
  return h.pow(2).sum();
}

at::Tensor gradient_of_a_step(const at::Tensor& weight, Region* region) {
  torch::manual_seed(3);
  weight.mutable_grad() = at::Tensor();
  const auto body = [&] { return forward(weight); };
  (region != nullptr ? region->run(body) : body()).backward();
  return weight.grad().clone();
}

// What is let go of in destructors must not need memory that may not be there.
TEST(SmallAllocations, R6BackwardEndsWithAnErrorWhicheverFails) {
  const auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
  const auto plain = gradient_of_a_step(weight, nullptr);
  Region region({.policy = "drop_all"});
  for (int i = 0; i < 3; ++i) gradient_of_a_step(weight, &region);
  int num_errors = 0;
  constexpr int kMost = 3000;
  for (int n = 0; n < kMost; ++n) {
    torch::manual_seed(3);
    weight.mutable_grad() = at::Tensor();
    at::Tensor y = region.run([&] { return forward(weight); });
    num_left = n;
    bool is_complete = false;
    try {
      y.backward();
      is_complete = true;
    } catch (const std::exception&) {
      ++num_errors;
    }
    const bool has_failed = num_left < 0;
    num_left = -1;
    y = at::Tensor();
    if (is_complete) expect_same_bits({plain}, {weight.grad()});
    if (!has_failed) break;
    ASSERT_LT(n, kMost - 1) << "a backward pass takes more";
  }
  EXPECT_GT(num_errors, 0);
  expect_same_bits({plain}, {gradient_of_a_step(weight, &region)});
}

}  // namespace
}  // namespace gradrecomp::test
