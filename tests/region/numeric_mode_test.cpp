// What a program chooses about precision, libraries and threads in its forward pass is what replays
// compute with, whatever it has chosen by then.
#include "tape/dispatch/numeric_mode.h"

#include <ATen/Parallel.h>
#include <c10/util/ScopeExit.h>
#include <gmock/gmock.h>
#include <torch/torch.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <cfenv>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/messages.h"
#include "support/modes.h"
#include "support/own_operator.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;
using tape::NumericMode;
using ::testing::HasSubstr;

double fingerprint(const NumericMode& mode) {
  double all = 0;
  const auto add = [&](double field) { all = all * 7 + field; };
  for (const bool flag :
       {mode.cudnn, mode.cudnn_benchmark, mode.cudnn_deterministic, mode.mkldnn,
        mode.mkldnn_deterministic, mode.nnpack, mode.deterministic, mode.deterministic_warns_only,
        mode.fills_uninitialized, mode.fp16_accumulation}) {
    add(flag ? 1 : 0);
  }
  add(mode.float_control);
  add(mode.fp16_reduction);
  add(mode.bf16_reduction);
  for (const auto precision : mode.precisions) add(precision);
  add(mode.cudnn_benchmark_limit);
  add(mode.num_threads);
  return 1 + std::remainder(all, 1009.0) / 1009.0;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("by_mode(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("by_mode",
               [](const at::Tensor& x) { return x * fingerprint(NumericMode::current()); });
}

at::Tensor by_mode(const at::Tensor& x) { return OwnOperator::apply(x, "by_mode"); }

/// By what LibTorch's older interface to precisions tells, which fails who asks while that differs
/// from the newer one.
double older_fingerprint() {
  const auto& context = at::globalContext();
  return 2 + static_cast<double>(context.float32MatmulPrecision()) +
         (context.allowTF32CuBLAS() ? 0.25 : 0) + (context.allowTF32CuDNN() ? 0.125 : 0);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("by_older_precisions(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("by_older_precisions", [](const at::Tensor& x) { return x * older_fingerprint(); });
}

struct Choice {
  std::string name;
  std::function<void()> make;
  std::function<void()> take_back;
};

template <typename Value>
Choice choice(const std::string& name, void (at::Context::*set)(Value), Value chosen, Value usual) {
  return {name, [=] { (at::globalContext().*set)(chosen); },
          [=] { (at::globalContext().*set)(usual); }};
}

std::vector<Choice> choices() {
  auto& context = at::globalContext();
  std::vector<Choice> all = {
      choice("no cuDNN", &at::Context::setUserEnabledCuDNN, false, true),
      choice("cuDNN's benchmark", &at::Context::setBenchmarkCuDNN, true, false),
      choice("cuDNN's limit", &at::Context::setBenchmarkLimitCuDNN, 3,
             context.benchmarkLimitCuDNN()),
      choice("deterministic cuDNN", &at::Context::setDeterministicCuDNN, true, false),
      choice("no oneDNN", &at::Context::setUserEnabledMkldnn, false, true),
      choice("deterministic oneDNN", &at::Context::setDeterministicMkldnn, true, false),
      choice("no NNPACK", &at::Context::setUserEnabledNNPACK, false, true),
      choice("memory left as it is", &at::Context::setDeterministicFillUninitializedMemory, false,
             true),
      choice("float16 sums", &at::Context::setAllowFP16AccumulationCuBLAS, true, false),
  };
  all.push_back({"deterministic algorithms",
                 [] { at::globalContext().setDeterministicAlgorithms(true, true); },
                 [] { at::globalContext().setDeterministicAlgorithms(false, false); }});
  all.push_back({"full float16 reductions",
                 [] { at::globalContext().setAllowFP16ReductionCuBLAS(false, false); },
                 [] { at::globalContext().setAllowFP16ReductionCuBLAS(true, true); }});
  all.push_back({"full bfloat16 reductions",
                 [] { at::globalContext().setAllowBF16ReductionCuBLAS(false, true); },
                 [] { at::globalContext().setAllowBF16ReductionCuBLAS(true, true); }});
  all.push_back({"no denormals", [] { at::Context::setFlushDenormal(true); },
                 [] { at::Context::setFlushDenormal(false); }});
  all.push_back({"numbers rounded up", [] { std::fesetround(FE_UPWARD); },
                 [] { std::fesetround(FE_TONEAREST); }});
#ifdef __SSE2__
  all.push_back({"no denormals of operands", [] { _mm_setcsr(_mm_getcsr() | 0x0040); },
                 [] { _mm_setcsr(_mm_getcsr() & ~0x0040U); }});
  all.push_back({"no denormals of results", [] { _mm_setcsr(_mm_getcsr() | 0x8000); },
                 [] { _mm_setcsr(_mm_getcsr() & ~0x8000U); }});
#endif
  all.push_back({"threads", [] { at::set_num_threads(3); },
                 [threads = at::get_num_threads()] { at::set_num_threads(threads); }});
  for (const auto op : {Float32Op::CONV, Float32Op::RNN, Float32Op::MATMUL}) {
    for (const auto backend : {Float32Backend::CUDA, Float32Backend::MKLDNN}) {
      const auto usual = at::globalContext().float32Precision(backend, op);
      const auto other =
          usual == Float32Precision::IEEE ? Float32Precision::TF32 : Float32Precision::IEEE;
      all.push_back({"precision",
                     [=] { at::globalContext().setFloat32Precision(backend, op, other); },
                     [=] { at::globalContext().setFloat32Precision(backend, op, usual); }});
    }
  }
  return all;
}

/// Makes a choice for a scope.
class Chosen {
 public:
  explicit Chosen(Choice choice) : choice_(std::move(choice)) { choice_.make(); }
  ~Chosen() { choice_.take_back(); }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

 private:
  Choice choice_;
};

TEST(NumericModes, ReplaysComputeAsTheForwardPassDid) {
  for (const Choice& choice : choices()) {
    SCOPED_TRACE(choice.name);
    const auto usual = NumericMode::current();
    {
      const Chosen chosen(choice);
      ASSERT_NE(usual, NumericMode::current());
    }
    expect_same_in_every_mode([&](const RunPart& run) {
      Tensors gradients;
      for (int step = 0; step < 3; ++step) {
        const auto x = torch::randn({8}).requires_grad_();
        at::Tensor y;
        {
          const Chosen chosen(choice);
          y = run([&] { return by_mode(x.exp()).sin(); });
        }
        y.sum().backward();
        gradients.push_back(x.grad());
      }
      return gradients;
    });
    EXPECT_EQ(usual, NumericMode::current());
  }
}

int num_threads_of_a_new_thread() {
  int num_threads = 0;
  std::thread([&] { num_threads = at::get_num_threads(); }).join();
  return num_threads;
}

TEST(NumericModes, OfReplaysChangeNothingForThreadsThatStartLater) {
  const int usual = at::get_num_threads();
  const auto takes_back = c10::make_scope_exit([&] { at::set_num_threads(usual); });
  Region region({.policy = "drop_all", .unrecorded_bytes = 0});
  const auto x = torch::randn({8}).requires_grad_();
  for (int step = 0; step < 2; ++step) {
    at::set_num_threads(3);
    auto sum = region.run([&] { return by_mode(x.exp()).sin().sum(); });
    at::set_num_threads(2);
    std::thread([] { at::set_num_threads(4); }).join();
    sum.backward();
    sum.reset();
    x.mutable_grad() = at::Tensor();
    EXPECT_EQ(at::get_num_threads(), 2);
    EXPECT_EQ(num_threads_of_a_new_thread(), 4);
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

TEST(NumericModes, ChangesInsideTheRegionAreFollowed) {
  const auto all = choices();
  expect_same_in_every_mode([&](const RunPart& run) {
    Tensors gradients;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({8}).requires_grad_();
      run([&] {
        at::Tensor y = x.exp();
        for (const Choice& choice : all) {
          const Chosen chosen(choice);
          y = by_mode(y).sin();
        }
        return by_mode(y).sin();
      })
          .sum()
          .backward();
      gradients.push_back(x.grad());
    }
    return gradients;
  });
}

// Steps have followed their plan for a while by then.
TEST(NumericModes, FirstChangesInAPlannedStepAreFollowed) {
  for (const bool is_taken_back : {true, false}) {
    SCOPED_TRACE(is_taken_back);
    for (const Choice& choice : choices()) {
      expect_same_in_every_mode([&](const RunPart& run) {
        Tensors gradients;
        for (int step = 0; step < 6; ++step) {
          const auto x = torch::randn({8}).requires_grad_();
          std::optional<Chosen> chosen;
          const auto y = run([&] {
            const at::Tensor h = x.exp();
            if (step >= 3) chosen.emplace(choice);
            const at::Tensor z = by_mode(h).sin();
            if (is_taken_back) chosen.reset();
            return step == 1 ? by_mode(z).mean() : by_mode(z).sum();
          });
          chosen.reset();
          y.backward();
          gradients.push_back(x.grad());
        }
        return gradients;
      });
    }
  }
}

// Where no library chooses a kernel, not all of the mode is asked for.
TEST(NumericModes, FirstChangesAroundSimpleOpsAreFollowed) {
  const auto program = [](const std::function<void(bool)>& change) {
    return [=](const RunPart& run) {
      Tensors gradients;
      const auto w = torch::linspace(0.1, 3, 40'000).requires_grad_();
      for (int step = 0; step < 6; ++step) {
        const auto y = run([&] {
          const auto v = w * 1.1;
          if (step >= 3) change(true);
          const auto a = v.sum() * 1e-3;
          const auto tiny = (v * 1e-38F) * 0.01;
          if (step >= 3) change(false);
          return (v * a).sin() * (tiny * 1e38F).exp();
        });
        y.sum().backward();
        gradients.push_back(y.detach());
        gradients.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
      }
      return gradients;
    };
  };
  const int num_threads = at::get_num_threads();
  expect_same_in_every_mode(
      program([=](bool on) { at::set_num_threads(on ? num_threads + 1 : num_threads); }));
  expect_same_in_every_mode(program([](bool on) { at::globalContext().setFlushDenormal(on); }));
}

TEST(NumericModes, AreFollowedBeforeABackwardInThePlannedRegion) {
  expect_same_in_every_mode([](const RunPart& run) {
    Tensors gradients;
    for (int step = 0; step < 6; ++step) {
      const auto x = torch::randn({8}).requires_grad_();
      at::Tensor inner = torch::zeros({});
      const auto y = run([&] {
        const at::Tensor sum = by_mode(x.exp()).sin().sum();
        if (step < 3) return sum + x.sum();
        const auto takes_back =
            c10::make_scope_exit([] { at::globalContext().setUserEnabledMkldnn(true); });
        at::globalContext().setUserEnabledMkldnn(false);
        inner = torch::autograd::grad({sum}, {x})[0];
        return x.sum();
      });
      (y + inner.sum()).backward();
      gradients.push_back(x.grad());
      gradients.push_back(inner);
    }
    return gradients;
  });
}

// Ops on integers follow the default dtype when they are called.
TEST(NumericModes, HaveTheDefaultDtype) {
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    expect_same_in_every_mode([=](const RunPart& run) {
      const auto takes_back =
          c10::make_scope_exit([] { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); });
      const auto weight = torch::randn({8}).requires_grad_();
      Tensors gradients;
      for (int step = 0; step < 3; ++step) {
        torch::set_default_dtype(c10::scalarTypeToTypeMeta(type));
        const auto y = run([&] { return (torch::arange(8) / 7).sin() * weight; });
        torch::set_default_dtype(
            c10::scalarTypeToTypeMeta(type == torch::kBFloat16 ? torch::kHalf : torch::kFloat));
        y.sum().backward();
        gradients.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      }
      return gradients;
    });
  }
}

/// What a program may call for precisions without asking the newer interface, and what takes it
/// back.
std::vector<Choice> older_choices() {
  std::vector<Choice> all;
  for (const std::string precision : {"high", "medium"}) {
    all.push_back({precision, [=] { at::globalContext().setFloat32MatmulPrecision(precision); },
                   [] { at::globalContext().setFloat32MatmulPrecision("highest"); }});
  }
  all.push_back(choice("cuBLAS", &at::Context::setAllowTF32CuBLAS, true, false));
  all.push_back(choice("cuDNN", &at::Context::setAllowTF32CuDNN, false, true));
  return all;
}

void expect_right_where_only_forward_is(const Choice& choice) {
  SCOPED_TRACE(choice.name);
  expect_same_in_every_mode([&](const RunPart& run) {
    Tensors gradients;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({8}).requires_grad_();
      at::Tensor y;
      {
        const Chosen chosen(choice);
        y = run([&] { return OwnOperator::apply(x.exp(), "by_older_precisions").sin(); });
      }
      const double before = older_fingerprint();
      y.sum().backward();
      EXPECT_EQ(older_fingerprint(), before);
      gradients.push_back(x.grad());
    }
    return gradients;
  });
}

TEST(NumericModes, OpsMayAskForPrecisionsByTheOlderInterface) {
  for (const Choice& choice : older_choices()) {
    expect_right_where_only_forward_is(choice);
    expect_right_where_only_forward_is({choice.name + " back", choice.take_back, choice.make});
    choice.take_back();
  }
}

TEST(NumericModes, APrecisionThatOnlyTheOlderInterfaceHasIsFollowed) {
  auto& context = at::globalContext();
  const auto make = [&] {
    context.setFloat32MatmulPrecision("high");
    context.setFloat32Precision(Float32Backend::CUDA, Float32Op::MATMUL, Float32Precision::IEEE);
    context.setFloat32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL, Float32Precision::IEEE);
  };
  make();
  const auto mode = NumericMode::current();
  context.setFloat32MatmulPrecision("highest");
  ASSERT_NE(mode, NumericMode::current());
  {
    const tape::NumericScope scope(mode, NumericMode::current());
    EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  }
  EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
}

TEST(NumericModes, APrecisionThatOnlyTheNewerInterfaceHasIsLeftSo) {
  auto& context = at::globalContext();
  const auto mode = NumericMode::current();
  context.setFloat32Precision(Float32Backend::CUDA, Float32Op::MATMUL, Float32Precision::TF32);
  context.setFloat32Precision(Float32Backend::CUDA, Float32Op::CONV, Float32Precision::IEEE);
  const auto mixed = NumericMode::current();
  {
    const tape::NumericScope scope(mode, mixed);
    EXPECT_NO_THROW(static_cast<void>(older_fingerprint()));
  }
  EXPECT_EQ(mixed, NumericMode::current());
  EXPECT_THROW(static_cast<void>(context.allowTF32CuBLAS()), c10::Error);
  context.setFloat32MatmulPrecision("highest");
  context.setAllowTF32CuDNN(true);
}

TEST(NumericModes, WhatAPrecisionInheritsItStillInherits) {
  auto& context = at::globalContext();
  const auto precision = [&] {
    return context.float32Precision(Float32Backend::MKLDNN, Float32Op::CONV);
  };
  const auto set_generic = [&](Float32Precision to) {
    context.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, to);
  };
  auto mode = NumericMode::current();
  set_generic(Float32Precision::IEEE);
  for (auto& of_op : mode.precisions) of_op = static_cast<std::uint8_t>(Float32Precision::TF32);
  {
    const tape::NumericScope scope(mode, NumericMode::current());
    EXPECT_EQ(precision(), Float32Precision::TF32);
  }
  EXPECT_EQ(precision(), Float32Precision::IEEE);
  set_generic(Float32Precision::TF32);
  EXPECT_EQ(precision(), Float32Precision::TF32);
  set_generic(Float32Precision::NONE);
  EXPECT_EQ(precision(), Float32Precision::NONE);
}

}  // namespace
}  // namespace gradrecomp::test
