// What another thread makes otherwise: replays run on one of autograd's.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "devices/dropping_steps.h"
#include "devices/on_device.h"
#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/own_operator.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

// As cuDNN's choice of an algorithm, which each thread makes for itself.
at::Tensor threaded(const at::Tensor& x) {
  static const auto first_thread = std::this_thread::get_id();
  return x * (std::this_thread::get_id() == first_thread ? 2.0 : 3.0);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("threaded(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("threaded", &threaded);
}

TEST(ReplayThread, WhatAnotherThreadMakesOtherwiseIsFoundAndKept) {
  const auto x = on_device(torch::randn({8})).requires_grad_();
  const WarningLog warnings;
  Steps steps(
      [](const at::Tensor& input) { return OwnOperator::apply(input.exp(), "threaded").sin(); });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x))) << i;
  EXPECT_THAT(warnings.text(), HasSubstr("gradrecomp_test::threaded"));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
}

// A difference in a byte that is not part of a word.
at::Tensor last_byte(const at::Tensor& x) {
  static std::atomic<std::uint8_t> calls{0};
  auto made = at::zeros({13}, x.options().dtype(at::kByte).device(at::kCPU));
  made[12] = ++calls;
  return made.to(x.device());
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("last_byte(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("last_byte", &last_byte);
}

TEST(ReplayThread, EveryByteIsCompared) {
  const auto x = on_device(torch::randn({13})).requires_grad_();
  const WarningLog warnings;
  Region region({.policy = "drop_all"});
  region
      .run([&] {
        const auto bytes = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("gradrecomp_test::last_byte", "")
                               .typed<at::Tensor(const at::Tensor&)>()
                               .call(x.detach());
        return x * bytes;
      })
      .sum()
      .backward();
  EXPECT_THAT(warnings.text(), HasSubstr("gradrecomp_test::last_byte"));
}

}  // namespace
}  // namespace gradrecomp::test
