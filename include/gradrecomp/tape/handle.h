#pragma once

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

#include "gradrecomp/export.h"
#include "gradrecomp/tape/tape.h"

namespace gradrecomp::tape {

/// What autograd holds instead of a saved tensor: a value on a tape, seen through a geometry.
class GRADRECOMP_API Handle final : public torch::autograd::SavedVariableHooks {
 public:
  Handle() = default;
  ~Handle() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  /// Throws: autograd's own error if the tensor was modified in place since it was saved.
  at::Tensor call_unpack_hook() override;

 private:
  void check_version() const;

  std::shared_ptr<Tape> tape_;
  ValueId value_ = -1;
  Geometry geometry_;
  c10::VariableVersion version_counter_;
  std::uint32_t saved_version_ = 0;
  at::Tensor untracked_;  // undefined tensors and those without storage
};

}  // namespace gradrecomp::tape
