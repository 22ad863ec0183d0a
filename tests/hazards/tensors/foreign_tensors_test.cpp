// Conformance H5, H6: tensors that are more than strided memory, and hooks of the program's own.
#include <ATen/FunctionalTensorWrapper.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/tensors/weight_steps.h"
#include "support/live_memory.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 3;

TEST(ForeignTensor, H5ZeroTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto zero = at::_efficientzerotensor({4, 6}, torch::kFloat);
    return ((x.mm(weight) * zero) + x.mm(weight).tanh()).exp();
  }));
}

TEST(ForeignTensor, H5MetaTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto shape = torch::empty({4}, torch::device(torch::kMeta));
    const auto dropped = torch::dropout(shape.add(1), 0.5, true);
    const auto random = torch::rand({3}, torch::device(torch::kMeta));
    return x.mm(weight).tanh().exp() * static_cast<double>(dropped.numel() + random.numel());
  }));
}

TEST(ForeignTensor, H5NestedTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto nested = at::_nested_tensor_from_tensor_list({h.slice(0, 0, 1), h.slice(0, 1, 4)});
    const auto padded = nested.to_padded_tensor(0.5);
    return padded.sin().sum().exp() + h;
  }));
}

TEST(ForeignTensor, H5SparseTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto sparse = torch::eye(4).to_sparse();
    return torch::mm(sparse, h).exp();
  }));
}

TEST(ForeignTensor, H5QuantizedTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto rounded = torch::quantize_per_tensor(h.detach(), 0.1, 0, torch::kQInt8);
    return rounded.dequantize().exp() * h;
  }));
}

TEST(ForeignTensor, H5FunctionalTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    at::Tensor inside;
    {
      const auto wrapped = at::functionalization::impl::to_functional_tensor(h.detach().clone());
      const c10::impl::IncludeDispatchKeyGuard functional(c10::DispatchKey::Functionalize);
      auto written = wrapped.add(1);
      written.mul_(2);
      at::functionalization::impl::sync(written);
      inside = at::functionalization::impl::from_functional_tensor(written);
    }
    return inside.exp() * h.exp();
  }));
}

/// A wrapper whose calls never reach the recorder: its key comes before autograd's, and goes on to
/// what is inside.
class WrapperImpl final : public c10::TensorImpl {
 public:
  explicit WrapperImpl(at::Tensor inside)
      : c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericWrapper) |
                            c10::DispatchKeySet(c10::DispatchKey::AutogradCPU),
                        inside.dtype(), c10::Device(c10::kCPU)),
        inside_(std::move(inside)) {
    set_sizes_contiguous(inside_.sizes());
  }
  const at::Tensor inside_;
};

at::Tensor wrap(at::Tensor inside) {
  return at::detail::make_tensor<WrapperImpl>(std::move(inside));
}

at::Tensor unwrap(const at::Tensor& tensor) {
  const auto* impl = dynamic_cast<const WrapperImpl*>(tensor.unsafeGetTensorImpl());
  return impl == nullptr ? tensor : impl->inside_;
}

void unwrap_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  for (std::size_t i = first; i < stack->size(); ++i) {
    if ((*stack)[i].isTensor()) (*stack)[i] = unwrap((*stack)[i].toTensor());
  }
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::TESTING_ONLY_GenericWrapper);
  op.callBoxed(stack);
  const std::size_t first_returned = stack->size() - op.schema().returns().size();
  for (std::size_t i = first_returned; i < stack->size(); ++i) {
    if ((*stack)[i].isTensor()) (*stack)[i] = wrap((*stack)[i].toTensor());
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&unwrap_and_call>());
}

// What such a call makes in plain memory may be read by replays, and then outlives the region.
TEST(ForeignTensor, H5PeaksOfStepsWithThemArePredicted) {
  install_cpu_counter();
  using Body = std::function<at::Tensor(const at::Tensor&)>;
  const auto quantized = [](const at::Tensor& h) {
    return torch::quantize_per_tensor(h.detach(), 0.1, 0, torch::kQInt8).dequantize().exp() * h;
  };
  const auto sparse = [](const at::Tensor& h) {
    return torch::mm(torch::eye(32).to_sparse(), h.detach()).exp() * h.tanh();
  };
  const auto padded = [](const at::Tensor& h) {
    const auto rows = at::_nested_tensor_from_tensor_list({h.slice(0, 0, 8), h.slice(0, 8, 32)});
    return rows.detach().to_padded_tensor(0.5).sin().mean() * h.exp();
  };
  for (const auto& body : std::vector<Body>{quantized, sparse, padded}) {
    auto weight = torch::randn({32, 32}).requires_grad_();
    for (const Options& options : every_policy()) {
      Region region(options);
      const auto step = [&] {
        weight.mutable_grad() = at::Tensor();
        const auto x = torch::randn({32, 32});
        return peak_of(
            [&] { return region.run([&] { return body(x.mm(weight).tanh()).sin(); }).sum(); });
      };
      step();
      EXPECT_EQ(step(), region.plan().predicted_peak_bytes) << region.brief_report();
      EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    }
  }
}

TEST(ForeignTensor, H5WhatTheyMadeMayBeWrittenByHand) {
  expect_same_or_error_in_every_mode(
      weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
        const auto h = x.mm(weight).tanh();
        auto made = torch::quantize_per_tensor(x, 0.1, 0, torch::kQInt8).dequantize();
        const auto first = made.exp() * h;
        std::fill_n(made.data_ptr<float>(), made.numel(), 0.25F);
        return first.sin() + made.cos() * h;
      }),
      {.least_num_same = 23});
}

TEST(ForeignTensor, H5WrapperOfATrackedTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto outer = wrap(h.detach());
    const auto made = unwrap(outer.sin().exp());
    return made * h.exp();
  }));
}

/// What the program does with what autograd saves: halves of it, as a quantiser might.
struct Halve final : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override {
    ++num_packed;
    packed = tensor.detach() * 0.5;
  }
  at::Tensor call_unpack_hook() override { return packed; }

  at::Tensor packed;
  static inline int num_packed = 0;
};

class HookingEngine final : public torch::autograd::Engine {
 public:
  ~HookingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return hooks ? std::make_unique<Halve>() : nullptr;
  }
  bool hooks = false;
};

HookingEngine& hooking_engine() {
  static auto* engine = new HookingEngine;
  return *engine;
}

torch::autograd::Engine& stub() { return hooking_engine(); }

// Before the first region of the process, as Python's torch module sets its engine.
const bool installed = [] {
  torch::autograd::set_default_engine_stub(&stub);
  return true;
}();

TEST(SavedTensorHooks, H6OfTheProgramGoFirstAroundARegion) {
  ASSERT_TRUE(installed);
  const int before = Halve::num_packed;
  expect_same_in_every_mode([](const RunPart& run) {
    hooking_engine().hooks = true;
    auto weight = torch::linspace(-1, 1, 16).view({4, 4}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      run([&] { return weight.sin().exp().mm(weight); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    hooking_engine().hooks = false;
    return all;
  });
  EXPECT_GT(Halve::num_packed, before);
}

TEST(SavedTensorHooks, H6OfTheProgramGoFirstInPartOfARegion) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    hooking_engine().hooks = true;
    const auto inside = h.exp().sin();
    hooking_engine().hooks = false;
    return inside.exp();
  }));
}

TEST(SavedTensorHooks, H6WhatTheyMakeOfALeafIsWhatABackwardInsideGoesOnWith) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::linspace(-1, 1, 16).view({4, 4}).requires_grad_();
    const auto x = torch::linspace(0, 1, 16).view({4, 4});
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] {
        hooking_engine().hooks = true;
        const auto inner = ((x * weight).tanh() * weight).exp().sum();
        hooking_engine().hooks = false;
        const auto slope = torch::autograd::grad({inner}, {weight}, {}, true, true)[0];
        return (x * (weight - slope * 0.1)).tanh().sum();
      });
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

TEST(UntrackedTensor, H5ModifiedInPlaceIsAutogradsOwnError) {
  auto values = torch::ones({3}).requires_grad_();
  const auto indices = torch::tensor({{0, 1, 2}});
  const auto body = [&] {
    const auto sparse = at::sparse_coo_tensor(indices, values * 1, {3});
    const auto squared = sparse * sparse;
    return std::pair(squared, sparse);
  };
  for (const bool wrapped : {false, true}) {
    const auto [squared, sparse] = wrapped ? detail::run_dropped(body) : body();
    {
      const torch::NoGradGuard no_grad;
      at::Tensor(sparse).mul_(2);
    }
    EXPECT_THAT(message_of([&] { at::_sparse_sum(squared).backward(); }),
                ::testing::HasSubstr("modified by an inplace operation"))
        << (wrapped ? "wrapped" : "plain");
  }
}

TEST(ForeignTensor, H5CallsThatRanUnrecordedAreReported) {
  const auto weight = torch::randn({6, 6}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (const bool has_foreign : {true, false}) {
    const auto x = torch::randn({4, 6});
    const auto y = region.run([&] {
      const auto h = x.mm(weight).tanh();
      return has_foreign ? h.to_sparse().to_dense().exp() : h.exp();
    });
    y.sum().backward();
    EXPECT_EQ(region.last_step().num_unrecorded_calls > 0, has_foreign);
    EXPECT_EQ(region.brief_report().find("ran unrecorded") != std::string::npos, has_foreign);
  }
}

}  // namespace
}  // namespace gradrecomp::test
