#include "closing.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
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
  static at::Tensor forward(AutogradContext* context, const at::Tensor& output,
                            const std::shared_ptr<ClosedStep>& step) {
    context->saved_data["step"] = c10::IValue::make_capsule(c10::make_intrusive<StepCapsule>(step));
    context->set_materialize_grads(false);
    return same_memory(output);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule =
        c10::static_intrusive_pointer_cast<StepCapsule>(context->saved_data["step"].toCapsule());
    const auto step = capsule->step;
    if (step->backward_begins(torch::autograd::get_current_graph_task_id())) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [step] { step->backward_ends(); });
    }
    gradients.emplace_back();  // the step itself is no tensor
    return gradients;
  }
};

}  // namespace

void close_outputs(const std::vector<at::Tensor*>& outputs, std::shared_ptr<ClosedStep> step) {
  std::vector<std::pair<at::Tensor*, std::size_t>> closed;
  variable_list tensors;
  for (at::Tensor* output : outputs) {
    if (!output->defined() || !output->requires_grad() || output->is_leaf()) continue;
    // A tensor returned twice stays one tensor.
    const auto first = std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
      return other.is_same(*output);
    });
    closed.emplace_back(output, first - tensors.begin());
    if (first == tensors.end()) tensors.push_back(*output);
  }
  // One node each: behind a shared one, backward would also run the nodes of outputs without a
  // gradient, with undefined gradients that hooks and some nodes cannot take.
  for (auto& tensor : tensors) tensor = Closing::apply(tensor, step);
  for (const auto& [output, position] : closed) *output = tensors[position];
}

}  // namespace gradrecomp
