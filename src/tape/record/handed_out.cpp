#include "tape/record/handed_out.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

namespace gradrecomp::tape {
namespace {

struct HeldVariable {
  at::Tensor variable;
  const Tape* tape;
};

/// A variable may leave its pass as a gradient, and it hangs on a graph that holds its tape, so no
/// tape may hold it.
struct HeldVariables {
  std::mutex mutex;
  std::vector<HeldVariable> all;
  std::atomic<std::size_t> count = 0;
};

// Never destroyed, as graphs of static duration end late.
HeldVariables& held_variables() {
  static auto* const held = new HeldVariables;
  return *held;
}

// One at a time, as destructors call this, which may take no memory.
template <typename Condition>
void let_go_where(const Condition& condition) {
  HeldVariables& held = held_variables();
  while (held.count > 0) {
    at::Tensor unused;  // freed when the lock is gone, as that may run code of the program
    const std::lock_guard lock(held.mutex);
    const auto found = std::ranges::find_if(held.all, [&](const HeldVariable& one) {
      return one.variable.use_count() == 1 && condition(one);
    });
    if (found == held.all.end()) return;
    std::swap(*found, held.all.back());
    unused = std::move(held.all.back().variable);
    held.all.pop_back();
    held.count = held.all.size();
  }
}

}  // namespace

HandedOut::HandedOut(const at::Tensor& tensor, const Tape& tape)
    : TensorImpl(c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype()), tape_(&tape) {
  const c10::TensorImpl& shown = *tensor.unsafeGetTensorImpl();
  copy_tensor_metadata(&shown, this, shown.version_counter(), true);
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  auto copy = TensorImpl::shallow_copy_and_detach(version_counter, allow_tensor_metadata_change);
  hold(at::Tensor(copy), *tape_);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const {
  return shallow_copy_and_detach(std::as_const(version_counter), allow_tensor_metadata_change);
}

void HandedOut::hold(const at::Tensor& variable, const Tape& tape) {
  {
    HeldVariables& held = held_variables();
    const std::lock_guard lock(held.mutex);
    held.all.push_back({variable, &tape});
    held.count = held.all.size();
  }
  if (torch::autograd::get_current_graph_task_id() < 0) return;
  torch::autograd::Engine::get_default_engine().queue_callback([] { let_go_of_unused(); });
}

void HandedOut::let_go_of_unused() noexcept {
  let_go_where([](const HeldVariable& /*one*/) { return true; });
}

void HandedOut::let_go_of_unused(const Tape& tape) noexcept {
  let_go_where([&](const HeldVariable& one) { return one.tape == &tape; });
}

bool is_generated(const torch::autograd::Node& node) {
  constexpr std::string_view kGenerated = "N5torch8autograd9generated";  // as compilers mangle it
  return std::string_view(typeid(node).name()).starts_with(kGenerated);
}

bool has_hooks(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() ||
         !node.post_hooks().empty();
}

}  // namespace gradrecomp::tape
