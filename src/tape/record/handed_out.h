#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

class Tape;

/// What a node, or a hook of it, is given of a saved tensor that it may give on as a gradient.
///
/// Autograd makes a variable of it, which nobody else holds. A leaf without a gradient takes such a
/// one for its own, and what is then written to the gradient would change what the program, another
/// gradient or a later pass reads. So the variable is held for as long as something else holds it,
/// up to the end of the pass, and the leaf makes a copy.
class HandedOut final : public c10::TensorImpl {
 public:
  /// `tensor`: plain strided memory, of a value on `tape`.
  HandedOut(const at::Tensor& tensor, const Tape& tape);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version_counter,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const override;

  /// Holds `variable`, of a value on `tape`, as long as something else does and the pass runs that
  /// this thread runs; not at all if it runs none.
  static void hold(const at::Tensor& variable, const Tape& tape);
  /// Lets go of variables of that tape which nothing else holds any more.
  static void let_go_of_unused(const Tape& tape) noexcept;

 private:
  const Tape* tape_;  // which may be gone
};

/// Whether it is a node of one of LibTorch's operators.
[[nodiscard]] bool is_generated(const torch::autograd::Node& node);
/// Whether the program has given it any.
[[nodiscard]] bool has_hooks(torch::autograd::Node& node);

}  // namespace gradrecomp::tape
