// Conformance H17: nodes that write onto what backward gives them.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;
using torch::autograd::AutogradContext;

constexpr int kNumSteps = 4;

/// A square whose backward pass uses the memory of what it saved.
struct SquareInPlace : torch::autograd::Function<SquareInPlace> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.square();
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    return {context->get_saved_variables()[0].mul_(2).mul_(gradients[0])};
  }
};

at::Tensor small_weight() { return (torch::randn({8, 8}) * 0.3).requires_grad_(); }

// Plain training does not need it any more, but replays do.
TEST(UnpackedWrite, H17ByABackwardPassIsPlainsOrAnError) {
  for (const bool is_retained : {false, true}) {
    SCOPED_TRACE(is_retained);
    const auto program = [=](const RunPart& run) {
      auto weight = small_weight();
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        const auto x = torch::randn({8, 8});
        const auto y = run([&] {
          const auto h = x.mm(weight);
          const auto later = h.exp().sin().sum();
          return later + SquareInPlace::apply(h).sum();
        });
        y.backward({}, is_retained);
        all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    expect_same_or_error_in_every_mode(
        program, {.text = "has been modified by an inplace operation", .least_num_same = 19});
  }
}

TEST(UnpackedWrite, H17IsSeenByWhoeverReadsItNextAsInPlainTraining) {
  const auto twice = [](const RunPart& run) {
    auto weight = small_weight();
    for (int step = 0; step < 2; ++step) {
      const auto y = run([&] {
        return SquareInPlace::apply(torch::ones({8, 8}).mm(weight)).sum();
      });
      if (step == 0) {
        y.backward();
        continue;
      }
      y.backward({}, /*retain_graph=*/true);
      y.backward();
    }
  };
  const auto by_two_nodes = [](const RunPart& run) {
    auto weight = small_weight();
    const auto y = run([&] {
      const auto h = torch::ones({8, 8}).mm(weight);
      const auto later = h.sin().sum();
      return later + SquareInPlace::apply(h).sum();
    });
    y.backward();
  };
  const WarningLog quiet;
  for (const auto& program : {std::function(twice), std::function(by_two_nodes)}) {
    const auto plainly = [](const std::function<at::Tensor()>& part) { return part(); };
    ASSERT_THAT(message_of([&] { program(plainly); }), HasSubstr("modified by an inplace"));
    for (const Mode& mode : every_mode()) {
      SCOPED_TRACE(mode.name);
      EXPECT_THAT(message_of([&] { program(mode.make()); }), HasSubstr("modified by an inplace"));
    }
  }
}

/// Gives what it saved for its gradient, as it is.
struct Dot : torch::autograd::Function<Dot> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& x) {
    context->save_for_backward({x});
    return (weight * x).sum();
  }
  static Tensors backward(AutogradContext* context, const Tensors&) {
    return {context->get_saved_variables()[0], at::Tensor()};
  }
};

// A leaf takes what has no other holder for its gradient, and later gradients are added to that.
TEST(UnpackedWrite, H17GradientsAreNotAddedToWhatWasSaved) {
  for (const bool is_made_inside : {false, true}) {
    SCOPED_TRACE(is_made_inside);
    expect_same_in_every_mode([=](const RunPart& run) {
      auto weight = torch::zeros({3}).requires_grad_();
      auto x = torch::ones({3});
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        at::Tensor made;
        const auto y = run([&] {
          made = is_made_inside ? x.exp() : x;
          return Dot::apply(weight, made).exp() * 0.1;
        });
        y.backward({}, /*retain_graph=*/true);
        y.backward();
        all.push_back(weight.grad().clone());
        all.push_back(made.clone());
      }
      all.push_back(x);
      return all;
    });
  }
}

// The memory that it writes to is no longer that of the op that made it first.
TEST(UnpackedWrite, H17OntoWhatWasMadeAgainInTheRegionIsRecorded) {
  const auto program = [](const RunPart& run) {
    auto weight = small_weight();
    auto other = small_weight();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      const auto y = run([&] {
        const auto sum = SquareInPlace::apply(x.mm(weight)).sum();
        const auto gradient = torch::autograd::grad({sum}, {weight})[0];
        return ((gradient * 3).exp() * other).sum();
      });
      y.backward();
      all.push_back(std::exchange(other.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(program, {.least_num_same = 24});
}

/// Takes what it has saved for the gradient of `weight`, after another backward pass through the
/// same step.
struct WithPassInside : torch::autograd::Function<WithPassInside> {
  static inline std::function<void()> pass;
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    context->save_for_backward({x});
    return weight.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& /*gradients*/) {
    at::Tensor saved = context->get_saved_variables()[0];
    pass();
    return {at::Tensor(), std::move(saved)};
  }
};

TEST(UnpackedWrite, H17OntoAGradientThatANestedPassCameBeforeIsNotOntoWhatWasSaved) {
  expect_same_in_every_mode([](const RunPart& run) {
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      const auto weight = torch::randn({8, 8}).requires_grad_();
      const auto other_weight = torch::randn({8, 8}).requires_grad_();
      at::Tensor other;
      const auto y = run([&] {
        other = (other_weight.exp() * 0.5).sin().sum();
        return WithPassInside::apply(x, weight);
      });
      WithPassInside::pass = [&] {
        all.push_back(torch::autograd::grad({other}, {other_weight}, {}, true)[0]);
      };
      y.sum().backward();
      weight.grad().add_(1);
      all.push_back(weight.grad());
      all.push_back(x);
    }
    WithPassInside::pass = nullptr;
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
