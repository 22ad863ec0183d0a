#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What a node of the program's own is given of a saved tensor that others go on to read.
///
/// Autograd makes a variable of it, which such a node may return as a gradient. A leaf without a
/// gradient takes that for its own unless somebody else holds it, and what is then written to the
/// gradient would change what the others read. So the tape holds each such variable for as long as
/// something else does.
class HandedOut final : public c10::TensorImpl {
 public:
  /// `tensor`: plain strided memory.
  HandedOut(const at::Tensor& tensor, std::weak_ptr<Tape> tape);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version_counter,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const override;

 private:
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> kept(
      c10::intrusive_ptr<c10::TensorImpl> variable) const;

  std::weak_ptr<Tape> tape_;
};

/// Whether `node` may return what it has unpacked, as those of LibTorch's operators do not.
[[nodiscard]] bool may_return_what_it_unpacks(const torch::autograd::Node& node);

}  // namespace gradrecomp::tape
