#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What a node, or a hook of it, is given of a saved tensor that it may give on as a gradient.
///
/// Autograd makes a variable of it, which nobody else holds. A leaf without a gradient takes such a
/// one for its own, and what is then written to the gradient would change what the program, another
/// gradient or a later pass reads. So the tape holds the variable for as long as something else
/// does, up to the end of the pass, and the leaf makes a copy.
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
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> held(
      c10::intrusive_ptr<c10::TensorImpl> variable) const;

  std::weak_ptr<Tape> tape_;
};

/// Not so nodes of LibTorch's operators, as long as the program has given them no hooks.
[[nodiscard]] bool may_give_what_it_unpacks(torch::autograd::Node& node);

}  // namespace gradrecomp::tape
