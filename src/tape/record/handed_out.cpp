#include "tape/record/handed_out.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <string_view>
#include <typeinfo>
#include <utility>

#include "tape/replay/replayer.h"

namespace gradrecomp::tape {
namespace {

/// Has the tape hold a variable until the pass ends, or fails, if it is not unused before: what it
/// hangs on holds the tape.
class HoldForThePass {
 public:
  HoldForThePass(const std::shared_ptr<Tape>& tape,
                 const c10::intrusive_ptr<c10::TensorImpl>& variable)
      : tape_(tape), variable_(variable) {
    Replayer(*tape).hold_while_used(at::Tensor(variable));
  }
  ~HoldForThePass() { end(); }
  HoldForThePass(const HoldForThePass&) = delete;
  HoldForThePass& operator=(const HoldForThePass&) = delete;

  void end() {
    if (const auto tape = std::exchange(tape_, {}).lock()) Replayer(*tape).let_go_of(variable_);
  }

 private:
  std::weak_ptr<Tape> tape_;
  c10::weak_intrusive_ptr<c10::TensorImpl> variable_;
};

}  // namespace

HandedOut::HandedOut(const at::Tensor& tensor, std::weak_ptr<Tape> tape)
    : TensorImpl(c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype()),
      tape_(std::move(tape)) {
  const c10::TensorImpl& shown = *tensor.unsafeGetTensorImpl();
  copy_tensor_metadata(&shown, this, shown.version_counter(), true);
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::held(
    c10::intrusive_ptr<c10::TensorImpl> variable) const {
  const auto tape = tape_.lock();
  if (!tape || torch::autograd::get_current_graph_task_id() < 0) return variable;
  const auto hold = std::make_shared<HoldForThePass>(tape, variable);
  torch::autograd::Engine::get_default_engine().queue_callback([hold] { hold->end(); });
  return variable;
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  return held(TensorImpl::shallow_copy_and_detach(version_counter, allow_tensor_metadata_change));
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const {
  return held(TensorImpl::shallow_copy_and_detach(std::move(version_counter),
                                                  allow_tensor_metadata_change));
}

bool may_give_what_it_unpacks(torch::autograd::Node& node) {
  constexpr std::string_view kGenerated = "N5torch8autograd9generated";  // as compilers mangle it
  const bool is_an_operators = std::string_view(typeid(node).name()).starts_with(kGenerated);
  const bool has_hooks =
      !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() || !node.post_hooks().empty();
  return !is_an_operators || has_hooks;
}

}  // namespace gradrecomp::tape
