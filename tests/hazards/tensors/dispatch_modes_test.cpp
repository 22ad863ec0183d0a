// Conformance H5: modes of the program's that see each call, as TorchDispatchMode does.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>

#include "gradrecomp/region.h"
#include "hazards/tensors/python_key.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using c10::impl::PyObject_TorchDispatchMode;
using c10::impl::TorchDispatchModeTLS;

class Counting final : public Interpreter {
 public:
  void handle(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    ++num_calls;
    op.callBoxed(stack);
  }
  static inline std::int64_t num_calls = 0;
};

/// While it lives, calls of this thread are counted.
class CountingMode {
 public:
  CountingMode() {
    static const auto* interpreter = new Counting;
    TorchDispatchModeTLS::push_non_infra_mode_onto_stack(
        std::make_shared<PyObject_TorchDispatchMode>(nullptr, interpreter->get()));
  }
  ~CountingMode() { TorchDispatchModeTLS::pop_stack(); }
  CountingMode(const CountingMode&) = delete;
  CountingMode& operator=(const CountingMode&) = delete;
};

enum class When { around, inside, in_backward, throughout };

at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, bool has_mode_inside) {
  auto h = x.mm(weight).tanh().exp();
  {
    std::optional<CountingMode> mode;
    if (has_mode_inside) mode.emplace();
    h = torch::layer_norm(h.mm(weight).sin(), {6}).add_(1);
  }
  return torch::dropout(h.exp(), 0.5, true).sin();
}

class DispatchMode : public ::testing::TestWithParam<When> {};

// It sees what it sees without a region, and neither replays nor anything else that is the tape's.
TEST_P(DispatchMode, H5SeesTheSameCallsAndLeavesTheSameGradients) {
  const When when = GetParam();
  expect_same_in_every_mode([=](const RunPart& run) {
    const auto weight = (torch::randn({6, 6}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      const std::int64_t before = Counting::num_calls;
      std::optional<CountingMode> mode;
      if (when == When::around || when == When::throughout) mode.emplace();
      const auto y = run([&] { return forward(x, weight, when == When::inside); });
      if (when == When::around) mode.reset();
      if (when == When::in_backward) mode.emplace();
      y.sum().backward();
      mode.reset();
      all.push_back(torch::full({}, Counting::num_calls - before));
      EXPECT_GT(Counting::num_calls, before);
      all.push_back(y.detach().clone());
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(When, DispatchMode,
                         ::testing::Values(When::around, When::inside, When::in_backward,
                                           When::throughout));

TEST(DispatchMode, H5CallsUnderItAreReportedAsUnrecorded) {
  const auto weight = torch::randn({6, 6}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (const bool has_mode : {true, false}) {
    std::optional<CountingMode> mode;
    if (has_mode) mode.emplace();
    const std::int64_t before = Counting::num_calls;
    const auto y = region.run([&] { return weight.tanh().exp(); });
    EXPECT_EQ(region.last_step().num_unrecorded_calls, Counting::num_calls - before);
    EXPECT_EQ(region.last_step().num_unrecorded_calls, has_mode ? 2 : 0);
    mode.reset();
    y.sum().backward();
  }
}

}  // namespace
}  // namespace gradrecomp::test
