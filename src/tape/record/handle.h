#pragma once

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <utility>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What autograd holds instead of a saved tensor: a value on a tape, seen through a geometry.
class Handle final : public torch::autograd::SavedVariableHooks {
 public:
  Handle() = default;
  ~Handle() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  /// Throws: autograd's own error if the tensor was modified in place since it was saved.
  at::Tensor call_unpack_hook() override;
  /// None, so that compiled autograd unpacks before it traces, as it does what has no hooks.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }

 private:
  void check_version() const;
  void check_gradient() const;
  [[nodiscard]] at::Tensor present_original() const;
  [[nodiscard]] at::Tensor rematerialize() const;
  void share_version(const at::Tensor& unpacked) const;
  /// Whether a leaf might get for its gradient what is unpacked here.
  [[nodiscard]] bool may_be_given_on() const;

  std::shared_ptr<Tape> tape_;          // null: it cannot follow the tensor, or there is none
  const Geometry* geometry_ = nullptr;  // of those that the tape keeps
  c10::VariableVersion version_counter_;
  ValueId value_ : 31 = -1;
  bool required_gradient_ : 1 = false;  ///< the tensor that was saved, then
  std::uint32_t saved_version_ = 0;
  /// The tensor that was saved, as long as something else holds it.
  c10::weak_intrusive_ptr<c10::TensorImpl> original_{c10::intrusive_ptr<c10::TensorImpl>()};
  /// And where its memory was then.
  c10::weak_intrusive_ptr<c10::StorageImpl> memory_{c10::intrusive_ptr<c10::StorageImpl>()};
  /// What the handle itself holds: a tensor without a tape, and a leaf from outside, as autograd
  /// does.
  at::Tensor held_;
};

}  // namespace gradrecomp::tape
