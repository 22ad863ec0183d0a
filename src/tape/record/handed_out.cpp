#include "tape/record/handed_out.h"

#include <utility>

#include "tape/replay/replayer.h"

namespace gradrecomp::tape {

HandedOut::HandedOut(const at::Tensor& tensor, std::weak_ptr<Tape> tape)
    : TensorImpl(c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype()),
      tape_(std::move(tape)) {
  const c10::TensorImpl& shown = *tensor.unsafeGetTensorImpl();
  copy_tensor_metadata(&shown, this, shown.version_counter(), true);
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::kept(
    c10::intrusive_ptr<c10::TensorImpl> variable) const {
  if (const auto tape = tape_.lock()) Replayer(*tape).hold_while_used(at::Tensor(variable));
  return variable;
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  return kept(TensorImpl::shallow_copy_and_detach(version_counter, allow_tensor_metadata_change));
}

c10::intrusive_ptr<c10::TensorImpl> HandedOut::shallow_copy_and_detach(
    c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const {
  return kept(TensorImpl::shallow_copy_and_detach(std::move(version_counter),
                                                  allow_tensor_metadata_change));
}

bool may_return_what_it_unpacks(const torch::autograd::Node& node) {
  return dynamic_cast<const torch::autograd::TraceableFunction*>(&node) == nullptr;
}

}  // namespace gradrecomp::tape
