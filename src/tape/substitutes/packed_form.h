#pragma once

#include <memory>

#include "gradrecomp/version.h"
#include "tape/substitute.h"

namespace gradrecomp::tape {

/// A smaller form that says all of one output of a call, and gives it back to the bit.
///
/// As a substitute it reads the packed form and makes the output.
class PackedForm : public Substitute {
 public:
  /// The packed form of an output with the bits of the call's.
  [[nodiscard]] virtual at::Tensor pack(const at::Tensor& output) const = 0;

  /// There is only this one formula, and no call that would do.
  [[nodiscard]] int num_formulas() const override { return 1; }
  [[nodiscard]] bool has_call() const override { return false; }
};

/// Packs the indices of a max_pool2d_with_indices call: their positions inside its windows, in a
/// byte each. Null if they do not fit, or no kernel packs them on that device.
///
/// `input` is what the call has pooled, as far as its sizes go.
std::shared_ptr<const PackedForm> packed_indices(const Op& call, c10::IntArrayRef input_sizes,
                                                 const at::Tensor& indices);

/// Packs a mask, whose elements are 0 or 1 of any type, in a bit each. Null where no kernel packs
/// it.
std::shared_ptr<const PackedForm> packed_mask(const at::Tensor& mask);

}  // namespace gradrecomp::tape
