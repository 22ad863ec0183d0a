// Conformance H17: what version counters say, and what they do not.
#include <gmock/gmock.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/writes/dirty_add.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;
using torch::autograd::AutogradContext;

constexpr int kNumSteps = 4;

/// Steps that run `body(x, weight, step)` in the region.
HostileProgram steps_of(
    std::int64_t width,
    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&, int)>& body) {
  return [=](const RunPart& run) {
    auto weight = (torch::randn({width, width}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({width, width});
      const auto y = run([&] { return body(x, weight, step); });
      y.sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
}

TEST(Versions, H17AWriteRightBeforeAnOpInPlaceIsFound) {
  for (const int first_to_write : {0, 2}) {
    SCOPED_TRACE(first_to_write);
    expect_same_or_error_in_every_mode(
        steps_of(8,
                 [=](const at::Tensor& x, const at::Tensor& weight, int step) {
                   auto h = x.mm(weight);
                   if (step >= first_to_write) h = DirtyAdd::apply(h);
                   return h.mul_(2).exp().sin();
                 }),
        {.least_num_same = 24});
  }
}

// A leaf that is first read through its data has two counters.
TEST(Versions, H17OfEveryCounterThatMemoryHasAreWatched) {
  auto weight = torch::randn({8, 8}).requires_grad_();
  const auto x = torch::randn({8, 8});
  Region region({.policy = "drop_all", .guard = Guard::off});
  weight.mutable_grad() = torch::zeros_like(weight);
  const auto step = [&] {
    return region.run([&] {
      static_cast<void>(weight.data().abs().max().item<float>());
      return x.mm(weight).exp().sin().sum();
    });
  };
  step().backward();
  const auto y = step();
  {
    const torch::NoGradGuard no_grad;
    weight.add_(1);
  }
  EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST(Versions, H17OfManyAliasesInALoopAreFollowed) {
  expect_same_in_every_mode(steps_of(8, [](const at::Tensor& x, const at::Tensor& weight, int) {
    auto buffer = torch::zeros({8, 8});
    auto h = x.mm(weight);
    for (int i = 0; i < 20; ++i) {
      buffer.data().add_(0.1);
      h = (h * buffer).tanh();
    }
    return h;
  }));
}

// It tells autograd of what the recorder has seen, after another op has read it.
struct HalveInPlace : torch::autograd::Function<HalveInPlace> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x) {
    x.mul_(0.5);
    context->save_for_backward({x.exp()});
    context->mark_dirty({x});
    return x;
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    return {context->get_saved_variables()[0] * gradients[0]};
  }
};

TEST(Versions, H17ThatGrowForWhatHasBeenRecordedAreNoWrites) {
  constexpr std::int64_t kMoreThanIsLookedAtWhole = 1 << 16;
  for (const std::int64_t size : {std::int64_t{8}, kMoreThanIsLookedAtWhole}) {
    for (const bool is_inside : {false, true}) {
      SCOPED_TRACE(std::to_string(size) + (is_inside ? ", backward in the region" : ""));
      expect_same_in_every_mode([=](const RunPart& run) {
        Tensors all;
        for (int step = 0; step < kNumSteps; ++step) {
          const auto leaf = torch::randn({size}).requires_grad_();
          const auto x = leaf * 1;
          const auto y = run([&] {
            const auto sum = HalveInPlace::apply(x).sin().sum();
            if (is_inside) sum.backward();
            return sum;
          });
          if (!is_inside) y.backward();
          all.push_back(leaf.grad());
        }
        return all;
      });
    }
  }
}

// What was expected of an op that has failed must not hide the next write.
TEST(Versions, H17DoNotGrowForAnOpThatFailed) {
  auto held = std::make_shared<at::Tensor>();  // so that its memory is there in backward
  expect_same_or_error_in_every_mode(
      steps_of(8,
               [=](const at::Tensor& x, const at::Tensor& weight, int) {
                 auto h = x.mm(weight);
                 const auto read = (h + 1).sin();
                 EXPECT_THROW(h.transpose_(0, 7), c10::Error);
                 *held = DirtyAdd::apply(h);
                 return read;
               }),
      {.least_num_same = 23});
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("decay_(Tensor(a!) state, Tensor x) -> ()");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) {
  library.impl("decay_", [](const at::Tensor& state, const at::Tensor& x) {
    at::Tensor target = state;
    target.mul_(0.5);
    target.add_(x);
  });
}

void decay(const at::Tensor& state, const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_test::decay_", "")
                             .typed<void(const at::Tensor&, const at::Tensor&)>();
  op.call(state, x);
}

// Nothing of autograd's makes its version grow; the ops within do, as often as they write.
TEST(Versions, H17OfAnOperatorThatWritesTwiceAreIts) {
  const WarningLog quiet;
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    const auto state = torch::zeros({8, 8});
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      const auto y = run([&] {
        auto h = x.mm(weight);
        for (int i = 0; i < 2; ++i) {
          decay(state, x);
          h = h * state.exp();
        }
        return h;
      });
      y.sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  });
}

// What autograd saves may be what no op reads, which numbers all that comes after it otherwise.
struct CloneAndSave : torch::autograd::Function<CloneAndSave> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& more) {
    if (more) context->save_for_backward({*more});
    return x.clone();
  }
  static Tensors backward(AutogradContext*, const Tensors& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

TEST(Versions, H3AStepThatSavesMoreIsAnotherSequence) {
  auto weight = torch::randn({8, 8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto step = [&](const std::optional<at::Tensor>& more) {
    region.run([&] { return CloneAndSave::apply(weight, more).exp(); }).sum().backward();
    weight.mutable_grad() = at::Tensor();
    return region.last_step().followed_plan;
  };
  step({});
  ASSERT_TRUE(step({}));
  EXPECT_FALSE(step(torch::ones({8})));
}

TEST(Versions, H17OfStatisticsThatAnOperatorIsKnownToUpdateAreIts) {
  const WarningLog quiet;
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    auto gain = torch::ones({8}).requires_grad_();
    auto bias = torch::zeros({8}).requires_grad_();
    auto mean = torch::zeros({8});
    auto variance = torch::ones({8});
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({16, 8});
      const auto y = run([&] {
        const auto h = std::get<0>(at::_native_batch_norm_legit(x.mm(weight), gain, bias, mean,
                                                                variance, true, 0.1, 1e-5));
        return h.tanh().exp();
      });
      y.sum().backward();
      all.push_back(mean.clone());
      all.push_back(variance.clone());
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      all.push_back(std::exchange(gain.mutable_grad(), at::Tensor()));
    }
    return all;
  });
}

/// Halves its input below what raises versions, adds 0.5 by pointer where it `shifts`, and then
/// tells autograd once.
struct HalveAndShift : torch::autograd::Function<HalveAndShift> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x, bool shifts) {
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      x.mul_(0.5);
      for (std::int64_t i = 0; shifts && i < x.numel(); ++i) x.data_ptr<float>()[i] += 0.5F;
    }
    context->mark_dirty({x});
    return x;
  }
  static Tensors backward(AutogradContext*, const Tensors& gradients) {
    return {gradients[0] * 0.5, at::Tensor()};
  }
};

TEST(Versions, H17OfAWriteByHandBesideAnOpBelowAutogradIsNotTheOps) {
  for (const int first : {0, 1}) {
    expect_same_in_every_mode(
        steps_of(8, [&](const at::Tensor& x, const at::Tensor& weight, int step) {
          return HalveAndShift::apply(x.mm(weight), step >= first).square().sin();
        }));
  }
}

}  // namespace
}  // namespace gradrecomp::test
