// Conformance H5: tensors of classes that Python dispatches, which reach the recorder as what they
// are.
#include <c10/core/impl/PyInterpreterHooks.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

#include "gradrecomp/region.h"
#include "hazards/tensors/python_key.h"
#include "hazards/tensors/weight_steps.h"
#include "tape/aten/intercepted_key.h"

// LibTorch's name for who may say whose object a tensor is. Nobody else defines it without Python.
namespace torch::utils {
class PyObjectPreservation {
 public:
  /// Older versions of LibTorch note it for each tensor, newer ones ask for one of the process.
  template <typename Slot>
  static void set_interpreter(Slot& slot, c10::impl::PyInterpreter* interpreter) {
    if constexpr (requires { slot.pyobj_interpreter_; }) {
      slot.pyobj_interpreter_.store(interpreter);
    } else {
      static const bool once = register_hooks(interpreter);
      static_cast<void>(once);
      static char object;  // which nobody looks into
      slot.store_pyobj(reinterpret_cast<PyObject*>(&object));
    }
  }

 private:
  using Hooks = c10::impl::PyInterpreterHooksInterface;

  static bool register_hooks(c10::impl::PyInterpreter* interpreter) {
    struct Own final : Hooks {
      explicit Own(c10::impl::PyInterpreter* own) : interpreter(own) {}
      c10::impl::PyInterpreter* getPyInterpreter() const override { return interpreter; }
      c10::impl::PyInterpreter* interpreter;
    };
    c10::impl::PyInterpreterHooksRegistry()->Register(
        "PyInterpreterHooks", [interpreter](auto&&...) -> std::unique_ptr<Hooks> {
          return std::make_unique<Own>(interpreter);
        });
    return true;
  }
};
}  // namespace torch::utils

namespace gradrecomp::test {
namespace {

at::Tensor unwrap(const at::Tensor& tensor);
at::Tensor wrap(const at::Tensor& inside);

/// Calls on to what is inside of wrappers.
class Unwrapping final : public Interpreter {
 public:
  void handle(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    ++num_calls;
    each_of_last(*stack, op.schema().arguments().size(), &unwrap);
    op.callBoxed(stack);
    each_of_last(*stack, op.schema().returns().size(), &wrap);
  }
  static inline std::int64_t num_calls = 0;

 private:
  static void each_of_last(torch::jit::Stack& stack, std::size_t count,
                           at::Tensor (*change)(const at::Tensor&)) {
    for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
      if (stack[i].isTensor()) stack[i] = change(stack[i].toTensor());
    }
  }
};

/// As torch.Tensor._make_wrapper_subclass() makes them: keys of the CPU and Python, no storage.
class PythonWrapper final : public c10::TensorImpl {
 public:
  explicit PythonWrapper(at::Tensor inside)
      : c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU), inside.dtype(),
                        c10::Device(c10::kCPU)),
        inside_(std::move(inside)) {
    static const auto* interpreter = new Unwrapping;
    torch::utils::PyObjectPreservation::set_interpreter(*pyobj_slot(), interpreter->get());
    set_python_dispatch(true);
    set_sizes_contiguous(inside_.sizes());
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool allows_metadata_change) const override {
    return shallow_copy_and_detach(c10::VariableVersion(version), allows_metadata_change);
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool allows_metadata_change) const override {
    auto copy = c10::make_intrusive<PythonWrapper>(inside_);
    copy->set_version_counter(std::move(version));
    copy->set_allow_tensor_metadata_change(allows_metadata_change);
    return copy;
  }

  const at::Tensor inside_;
};

at::Tensor wrap(const at::Tensor& inside) { return at::detail::make_tensor<PythonWrapper>(inside); }

at::Tensor unwrap(const at::Tensor& tensor) {
  const auto* impl = dynamic_cast<const PythonWrapper*>(tensor.unsafeGetTensorImpl());
  return impl == nullptr ? tensor : impl->inside_;
}

using torch::autograd::AutogradContext;

/// As DTensor's from_local() and to_local().
struct Wrap : torch::autograd::Function<Wrap> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return wrap(x); }
  static Tensors backward(AutogradContext* /*context*/, const Tensors& gradients) {
    return {unwrap(gradients[0])};
  }
};
struct Unwrap : torch::autograd::Function<Unwrap> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return unwrap(x); }
  static Tensors backward(AutogradContext* /*context*/, const Tensors& gradients) {
    return {wrap(gradients[0])};
  }
};

/// Between plain tensors, the first of which may get a wrapper for its gradient.
struct UnwrapGradient : torch::autograd::Function<UnwrapGradient> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(AutogradContext* /*context*/, const Tensors& gradients) {
    return {unwrap(gradients[0])};
  }
};

// Each of its operators saves wrappers.
TEST(WrapperTensor, H5IsPassedOnAndSaved) {
  const std::int64_t before = Unwrapping::num_calls;
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto outer = Wrap::apply(h.exp());
    const auto made = (outer.sin() * outer).sigmoid().mm(Wrap::apply(weight));
    return Unwrap::apply(made).exp() * h.sin();
  }));
  EXPECT_GT(Unwrapping::num_calls, before);
}

TEST(WrapperTensor, H5BesidePlainTensorsIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto made = UnwrapGradient::apply(h.sin()) * wrap(x.narrow(1, 0, 6)) + h.detach().exp();
    return Unwrap::apply(made).exp();
  }));
}

TEST(WrapperTensor, H5MayBeTheParameter) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = wrap(torch::randn({6, 6}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      const auto y = run([&] { return Unwrap::apply(wrap(x).mm(weight).tanh()).exp(); });
      y.sum().backward();
      all.push_back(unwrap(gradient_of(weight)));
    }
    return all;
  });
}

// LibTorch 2.13 moved the recorder's key below that of Python, which calls on to what is inside.
TEST(WrapperTensor, H22CallsOnItAreReportedAsUnrecordedWhereThoseInsideAreNotRecorded) {
  const bool records_inside = tape::kInterceptedKey < c10::DispatchKey::Python;
  const auto weight = torch::randn({6, 6}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    const auto y =
        region.run([&] { return Unwrap::apply(Wrap::apply(weight.sin()).sin().exp()).sin(); });
    EXPECT_EQ(region.last_step().num_unrecorded_calls, records_inside ? 0 : 2);
    y.sum().backward();
  }
  EXPECT_EQ(region.graph().ops.size(), records_inside ? 4 : 2);
}

}  // namespace
}  // namespace gradrecomp::test
