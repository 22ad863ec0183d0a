#include "tape/record/handle.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <utility>

#include "tape/aten/stopwatch.h"
#include "tape/dispatch/plain_memory.h"
#include "tape/record/handed_out.h"
#include "tape/record/recorder.h"
#include "tape/replay/replayer.h"

namespace gradrecomp::tape {
namespace {

// A backward pass inside the region unpacks a leaf as another tensor, to autograd with hooks, and
// nodes that the pass makes save that one. Plain training saves the leaf itself; but where hooks of
// the program's own made something else of it, it saves what they made.
at::Tensor leaf_of(const at::Tensor& tensor) {
  if (!tensor.is_leaf() || !tensor.requires_grad()) return tensor;
  const auto node = torch::autograd::impl::try_get_grad_accumulator(tensor);
  const auto* accumulator = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  if (accumulator == nullptr || !accumulator->variable.has_storage()) return tensor;
  return tensor.is_alias_of(accumulator->variable) ? accumulator->variable : tensor;
}

/// Times a hook, in a step that is timed.
class HookTimer {
 public:
  explicit HookTimer(Tape& tape) : tape_(tape) {
    if (tape.backward().is_timed) stopwatch_.emplace();
  }
  ~HookTimer() {
    if (!stopwatch_) return;
    const double seconds = stopwatch_->seconds();
    const auto lock = tape_.lock();
    tape_.backward().hook_seconds += seconds;
  }
  HookTimer(const HookTimer&) = delete;
  HookTimer& operator=(const HookTimer&) = delete;

 private:
  Tape& tape_;
  std::optional<Stopwatch> stopwatch_;
};

}  // namespace

Handle::~Handle() {
  if (!tape_) return;
  const HookTimer timer(*tape_);
  try {
    Replayer(*tape_).release_handle(value_, geometry_);
  } catch (const std::bad_alloc&) {
    return;  // what it held stays until the tape goes
  }
  HandedOut::let_go_of_unused(*tape_);
}

void Handle::call_pack_hook(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  original_ = leaf_of(tensor).getIntrusivePtr();
  required_gradient_ = tensor.requires_grad();
  if (!tensor.is_inference()) {
    version_counter_ = tensor.unsafeGetTensorImpl()->version_counter();
    saved_version_ = version_counter_.current_version();
  }
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr || !is_plain(tensor)) {
    // A result must not hold the node that saves it, whose hook this is.
    held_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
    return;
  }
  value_ = recorder->save(tensor);
  tape_ = recorder->tape();
  geometry_ = tape_->geometry_of(tensor);
  memory_ = tensor.storage().getWeakStorageImpl();
  if (tensor.is_leaf() && tape_->values()[value_].external) held_ = tensor;
}

at::Tensor Handle::call_unpack_hook() {
  check_version();
  check_gradient();
  if (!tape_) return held_;
  HandedOut::let_go_of_unused(*tape_);
  const HookTimer timer(*tape_);
  Replayer replayer(*tape_);
  replayer.asked_by(torch::autograd::get_current_graph_task_id());
  at::Tensor unpacked = present_original();
  if (!unpacked.defined()) unpacked = rematerialize();
  share_version(unpacked);
  const bool is_given_on = may_be_given_on();
  // Of what follows gradients autograd makes a variable, and what does not is one.
  if (is_given_on && !required_gradient_) {
    HandedOut::hold(unpacked, *tape_);
    return unpacked;
  }
  if (is_given_on) unpacked = at::Tensor(c10::make_intrusive<HandedOut>(unpacked, *tape_));
  replayer.hold_while_used(unpacked);
  return unpacked;
}

// A node's own result is another tensor to autograd without hooks, too, whoever holds it. And a
// leaf takes nothing in a pass that is differentiated.
bool Handle::may_be_given_on() const {
  const auto node = torch::autograd::get_current_node();
  const bool is_in_pass = torch::autograd::get_current_graph_task_id() >= 0;
  if (!node || !is_in_pass || at::GradMode::is_enabled()) return false;
  if (is_generated(*node)) return has_hooks(*node);
  auto impl = original_.lock();
  return !impl || at::Tensor(std::move(impl)).grad_fn() != node;
}

at::Tensor Handle::rematerialize() const {
  Replayer replayer(*tape_);
  try {
    return geometry_->over(replayer.materialize(value_));
  } catch (c10::Error& error) {  // out of memory, more often than not
    error.add_context(replayer.describe(value_));
    throw;
  }
}

// A node may write onto what it gets. Whoever reads it next must learn of that, as in plain
// training.
void Handle::share_version(const at::Tensor& unpacked) const {
  if (!version_counter_.enabled() || unpacked.is_inference()) return;
  unpacked.unsafeGetTensorImpl()->set_version_counter(version_counter_);
}

// Autograd saves a node's own result as memory, and anything else as the tensor itself. Where that
// has been given other memory since (by set_data() and the like), or another part of the same,
// plain training goes on with that.
at::Tensor Handle::present_original() const {
  const auto impl = original_.lock();
  if (!impl) return {};
  const at::Tensor tensor(impl);
  if (!is_plain(tensor)) return {};
  const bool has_same_memory =
      tensor.storage().unsafeGetStorageImpl() == memory_._unsafe_get_target();
  if (has_same_memory && geometry_->shows_same(Geometry(tensor))) return {};
  const auto node = torch::autograd::get_current_node();
  const bool is_own_result = node != nullptr && tensor.grad_fn() == node;
  return is_own_result ? at::Tensor() : Geometry(tensor).over(tensor.storage());
}

// With hooks autograd leaves this check to us. The wording is autograd's, so that people can look
// it up.
void Handle::check_version() const {
  if (!version_counter_.enabled()) return;
  const auto version = version_counter_.current_version();
  if (version == saved_version_) return;
  const OpId producer = tape_ ? tape_->values()[value_].producer : -1;
  TORCH_CHECK(
      false, "one of the variables needed for gradient computation has been modified by an ",
      "inplace operation: [", c10::toString(tape_ ? geometry_->scalar_type() : held_.scalar_type()),
      " ", tape_ ? geometry_->sizes() : held_.sizes(), "]",
      producer < 0 ? std::string() : ", made by " + tape_->ops()[producer].name() + ",",
      " is at version ", version, "; expected version ", saved_version_,
      " instead. Hint: replace the in-place operation by one that makes a new tensor.");
}

// In plain training autograd saves the tensor itself, which may ask for a gradient only later, in
// time for a backward pass that is differentiated again. What a hook gives back is another tensor
// to it.
void Handle::check_gradient() const {
  if (required_gradient_ || !at::GradMode::is_enabled()) return;
  const auto original = original_.lock();
  TORCH_CHECK_VALUE(!original || !original->requires_grad(),
                    "GradRecomp: a tensor that autograd has saved",
                    " was given requires_grad_() after that, and is needed under create_graph, "
                    "where its gradient",
                    " would be lost. Call requires_grad_() before the region begins.");
}

}  // namespace gradrecomp::tape
