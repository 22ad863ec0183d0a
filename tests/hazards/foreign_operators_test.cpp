// Conformance E6: operators that are not LibTorch's own, whose tags may say too little.
#include <ATen/core/Generator.h>
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

/// A generator that counts, as a library of random numbers may bring it.
class Counting final : public c10::GeneratorImpl {
 public:
  Counting()
      : GeneratorImpl(c10::Device(c10::kCPU),
                      c10::DispatchKeySet(c10::DispatchKey::CustomRNGKeyId)) {}
  void set_current_seed(std::uint64_t seed) override { count_ = seed; }
  std::uint64_t current_seed() const override { return count_; }
  std::uint64_t seed() override { return count_; }
  void set_offset(std::uint64_t /*offset*/) override { refuse(); }
  std::uint64_t get_offset() const override { refuse(); }
  void set_state(const c10::TensorImpl& /*state*/) override { refuse(); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { refuse(); }
  static c10::DeviceType device_type() { return c10::kCPU; }
  double next() { return 0.01 * static_cast<double>(++count_); }

 private:
  GeneratorImpl* clone_impl() const override { return new Counting(*this); }
  Counting(const Counting& other) : GeneratorImpl(other.device_, other.key_set_) {
    count_ = other.count_;
  }
  [[noreturn]] static void refuse() { TORCH_CHECK(false, "it has no such thing"); }

  std::uint64_t count_ = 0;
};

at::Tensor& count_into(at::Tensor& self, double mean, double deviation,
                       std::optional<at::Generator> generator) {
  return self.fill_(mean + deviation * generator->get<Counting>()->next());
}

TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, library) { library.impl("normal_", count_into); }

TEST(ForeignGenerator, E7IsLeftAlone) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    const auto generator = at::make_generator<Counting>();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto noisy = [&] {
        return (weight * torch::empty({8, 8}).normal_(0, 1, generator)).exp().sin();
      };
      run(noisy).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    all.push_back(torch::full({}, static_cast<double>(generator.current_seed())));
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
