#include "closing.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace gradrecomp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Carries a ClosedStep through the context of an autograd function.
struct StepCapsule final : torch::CustomClassHolder {
  explicit StepCapsule(std::shared_ptr<ClosedStep> closed) : step(std::move(closed)) {}
  std::shared_ptr<ClosedStep> step;
};

// The same storage and version counter in a tensor that is no view, so that the program may go on
// to modify a region's output in place.
at::Tensor same_memory(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

struct Closing : torch::autograd::Function<Closing> {
  static variable_list forward(AutogradContext* context, at::TensorList outputs,
                               const std::shared_ptr<ClosedStep>& step) {
    context->saved_data["step"] =
        c10::IValue::make_capsule(c10::make_intrusive<StepCapsule>(step));
    // An output that no loss uses gets no gradient in plain training either.
    context->set_materialize_grads(false);
    variable_list behind;
    for (const auto& output : outputs) behind.push_back(same_memory(output));
    return behind;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule =
        c10::static_intrusive_pointer_cast<StepCapsule>(context->saved_data["step"].toCapsule());
    const auto step = capsule->step;
    step->backward_begins();
    torch::autograd::Engine::get_default_engine().queue_callback(
        [step] { step->backward_ends(); });
    gradients.emplace_back();  // the step itself is no tensor
    return gradients;
  }
};

}  // namespace

void close_outputs(const std::vector<at::Tensor*>& outputs, std::shared_ptr<ClosedStep> step) {
  std::vector<at::Tensor*> closed;
  variable_list tensors;
  for (at::Tensor* output : outputs) {
    if (!output->defined() || !output->requires_grad() || output->is_leaf()) continue;
    closed.push_back(output);
    tensors.push_back(*output);
  }
  if (closed.empty()) return;
  const auto behind = Closing::apply(at::TensorList(tensors), step);
  for (std::size_t i = 0; i < closed.size(); ++i) *closed[i] = behind[i];
}

}  // namespace gradrecomp
