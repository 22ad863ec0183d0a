#include "closing.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace gradrecomp {
namespace {

using torch::autograd::variable_list;

// Runs before a node of the region that backward can meet first. It lets gradients pass as they
// are: a node of our own would add up what comes from outside before what comes from inside, and
// sums of three are rounded by their order.
class OpenReplay final : public torch::autograd::FunctionPreHook {
 public:
  explicit OpenReplay(std::shared_ptr<ClosedStep> step) : step_(std::move(step)) {}

  variable_list operator()(const variable_list& gradients) override {
    if (step_->backward_begins(torch::autograd::get_current_graph_task_id())) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [step = step_] { step->backward_ends(); });
    }
    return gradients;
  }

 private:
  std::shared_ptr<ClosedStep> step_;
};

// Autograd brings the node of a view up to date with writes through its base when somebody asks for
// it. We must not be the first to ask: the program could tell by is_leaf(), the new node's number
// decides in which order gradients are added up, and of one of several views, as of a split,
// autograd refuses to make it.
bool is_outdated(const at::TensorBase& tensor) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view != nullptr && view->has_bw_view() && view->get_attr_version() != tensor._version();
}

// What the region was given and returns as it is belongs to nodes that backward may meet without
// the region.
void hook(const at::TensorBase& tensor, const std::shared_ptr<ClosedStep>& step,
          std::uint64_t first_node) {
  if (is_outdated(tensor)) return;  // its node will lead to that of its base
  const auto node = tensor.grad_fn();
  if (node == nullptr || node->sequence_nr() < first_node) return;
  node->add_pre_hook(std::make_unique<OpenReplay>(step));
}

}  // namespace

void close_outputs(const std::vector<at::Tensor*>& outputs, const std::shared_ptr<ClosedStep>& step,
                   std::uint64_t first_node) {
  for (const at::Tensor* output : outputs) {
    if (!output->defined()) continue;
    hook(*output, step, first_node);
    // A write in place behind the region leads past the node of a view to that of its base.
    if (output->is_view()) hook(output->_base(), step, first_node);
  }
}

}  // namespace gradrecomp
