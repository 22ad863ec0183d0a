#include <torch/library.h>

#include <array>

#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

/// As tensors of Python classes are: no memory of its own, and calls that reach its key go on to
/// what is inside.
class ShellImpl final : public c10::TensorImpl {
 public:
  explicit ShellImpl(Tensor inside)
      : c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericWrapper) |
                            c10::DispatchKeySet(c10::DispatchKey::AutogradCPU),
                        inside.dtype(), c10::Device(c10::kCPU)),
        inside_(std::move(inside)) {
    set_sizes_contiguous(inside_.sizes());
  }
  [[nodiscard]] const Tensor& inside() const { return inside_; }

 private:
  Tensor inside_;
};

Tensor in_shell(Tensor inside) { return at::detail::make_tensor<ShellImpl>(std::move(inside)); }

Tensor out_of_shell(const Tensor& tensor) {
  const auto* shell = dynamic_cast<const ShellImpl*>(tensor.unsafeGetTensorImpl());
  return shell == nullptr ? tensor : shell->inside();
}

void call_inside(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto num_arguments = op.schema().arguments().size();
  for (std::size_t i = stack->size() - num_arguments; i < stack->size(); ++i) {
    if ((*stack)[i].isTensor()) (*stack)[i] = out_of_shell((*stack)[i].toTensor());
  }
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::TESTING_ONLY_GenericWrapper);
  op.callBoxed(stack);
  for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    if ((*stack)[i].isTensor()) (*stack)[i] = in_shell((*stack)[i].toTensor());
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&call_inside>());
}

void shell(Machine& machine) {
  const auto x = machine.pick_float();
  const auto outer = in_shell(torch::tanh(x).detach());
  const auto made = machine.dice().chance(0.5) ? outer.sin().exp() : (outer + outer).cos();
  machine.push(out_of_shell(made) * x);
}

void zero_tensor(Machine& machine) {
  const auto x = machine.pick_float();
  const auto zero = at::_efficientzerotensor(x.sizes(), torch::kFloat);
  machine.push(((x * zero) + x.tanh()).exp());
}

void meta_tensor(Machine& machine) {
  const auto x = machine.pick_float();
  const auto shape = torch::empty(x.sizes(), torch::device(torch::kMeta));
  const auto made = machine.dice().chance(0.5) ? torch::dropout(shape.add(1), 0.5, true)
                                               : torch::rand_like(shape).reshape({-1});
  machine.push(x.tanh() * (1.0 / (1.0 + static_cast<double>(made.numel()))));
}

void nested_tensor(Machine& machine) {
  const auto x = torch::tanh(machine.pick_shaped({4, machine.sizes().features}));
  const auto rows = at::_nested_tensor_from_tensor_list({x.slice(0, 0, 1), x.slice(0, 1, 4)});
  const auto padded = rows.to_padded_tensor(0.5);
  machine.push(padded.sin().mean().exp() * x);
}

void sparse_tensor(Machine& machine) {
  const auto x = torch::tanh(machine.pick_shaped({4, machine.sizes().features}));
  if (machine.dice().chance(0.5)) {
    return machine.push(torch::mm(torch::eye(4).to_sparse(), x).exp());
  }
  const auto sparse = x.detach().relu().to_sparse();
  machine.push((sparse * 2).to_dense() * x);
}

void quantized_tensor(Machine& machine) {
  const auto x = torch::tanh(machine.pick_float());
  const auto rounded = torch::quantize_per_tensor(x.detach(), 0.1, 0, torch::kQInt8);
  machine.push(rounded.dequantize().exp() * x);
}

// Whole numbers of which 16 bits hold those of some steps, and not those of others.
void number_of_a_table(Machine& machine) {
  constexpr std::array kTypes{torch::kFloat, torch::kLong, torch::kHalf, torch::kDouble,
                              torch::kShort};
  constexpr std::int64_t kSize = 300;
  const auto x = machine.pick();
  const auto type = kTypes[machine.dice().below(kTypes.size())];
  const auto scale = 1 + 30 * static_cast<std::int64_t>(machine.world().quirk);
  const auto number = (torch::arange(kSize) * scale).to(type)[machine.dice().between(1, kSize - 1)];
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push((x + number).sin());
    case 1:
      return machine.push((x - number).sin().relu());
    case 2:
      return machine.push(((x.tanh() * number) + number).sin());
    default:
      return machine.push((x / number).exp());
  }
}

}  // namespace

std::vector<Operation> foreign_tensor_operations() {
  return {{"shell", 3, shell},
          {"number_of_a_table", 3, number_of_a_table},
          {"zero_tensor", 1, zero_tensor},
          {"meta_tensor", 1, meta_tensor},
          {"nested_tensor", 1, nested_tensor},
          {"sparse_tensor", 1, sparse_tensor},
          {"quantized_tensor", 1, quantized_tensor}};
}

}  // namespace gradrecomp::fuzzing
