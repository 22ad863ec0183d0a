#include "gradrecomp/tape/handle.h"

#include <c10/util/Exception.h>

#include "gradrecomp/tape/recorder.h"

namespace gradrecomp::tape {

Handle::~Handle() {
  if (tape_) tape_->release_handle(value_);
}

void Handle::call_pack_hook(const at::Tensor& tensor) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr || !tensor.defined() || !tensor.has_storage()) {
    untracked_ = tensor;
    return;
  }
  value_ = recorder->save(tensor);
  tape_ = recorder->tape();
  geometry_ = Geometry(tensor);
  if (tensor.is_inference()) return;
  version_counter_ = tensor.unsafeGetTensorImpl()->version_counter();
  saved_version_ = version_counter_.current_version();
}

at::Tensor Handle::call_unpack_hook() {
  if (!tape_) return untracked_;
  check_version();
  try {
    return geometry_.over(tape_->materialize(value_));
  } catch (c10::Error& error) {  // out of memory, more often than not
    error.add_context(tape_->describe(value_));
    throw;
  }
}

// With hooks autograd leaves this check to us. The wording is autograd's, so that what people
// know how to look up they can look up.
void Handle::check_version() const {
  if (!version_counter_.enabled()) return;
  const auto version = version_counter_.current_version();
  if (version == saved_version_) return;
  const OpId producer = tape_->values()[value_].producer;
  TORCH_CHECK(
      false, "one of the variables needed for gradient computation has been modified by an ",
      "inplace operation: [", c10::toString(geometry_.scalar_type()), " ", geometry_.sizes(), "]",
      producer < 0 ? std::string()
                   : ", made by " + tape_->ops()[producer].handle.schema().name() + ",",
      " is at version ", version, "; expected version ", saved_version_,
      " instead. Hint: replace the in-place operation by one that makes a new tensor.");
}

}  // namespace gradrecomp::tape
