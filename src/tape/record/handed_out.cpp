#include "tape/record/handed_out.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <memory>
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
  int pass;  ///< autograd's number of it
};

/// They hang on graphs that hold tapes, so no tape may hold them.
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
    const auto found = std::ranges::find_if(held.all, condition);
    if (found == held.all.end()) return;
    std::swap(*found, held.all.back());
    unused = std::move(held.all.back().variable);
    held.all.pop_back();
    held.count = held.all.size();
  }
}

/// Lets go of what is held for a pass as that ends, or has failed.
class EndOfPass {
 public:
  explicit EndOfPass(int pass) : pass_(pass) {}
  ~EndOfPass() { come(); }
  EndOfPass(const EndOfPass&) = delete;
  EndOfPass& operator=(const EndOfPass&) = delete;

  void come() const {
    let_go_where([&](const HeldVariable& one) { return one.pass == pass_; });
  }

 private:
  int pass_;
};

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
  const int pass = torch::autograd::get_current_graph_task_id();
  if (pass < 0) return;
  {
    HeldVariables& held = held_variables();
    const std::lock_guard lock(held.mutex);
    held.all.push_back({variable, &tape, pass});
    held.count = held.all.size();
  }
  const auto end = std::make_shared<EndOfPass>(pass);
  torch::autograd::Engine::get_default_engine().queue_callback([end] { end->come(); });
}

void HandedOut::let_go_of_unused(const Tape& tape) noexcept {
  let_go_where(
      [&](const HeldVariable& one) { return one.tape == &tape && one.variable.use_count() == 1; });
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
