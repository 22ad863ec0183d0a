// Conformance E6: operators that are not LibTorch's own, whose tags may say too little.
#include <torch/library.h>
#include <torch/torch.h>

#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("noisy(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) {
  library.impl("noisy", [](const at::Tensor& x) { return x + at::rand_like(x); });
}

// No tag says that it draws.
TEST(ForeignOperator, E6ThatDrawsIsNotRunAgain) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return OwnOperator::apply(x * weight, "noisy").sin(); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    all.push_back(torch::rand({4}));
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
