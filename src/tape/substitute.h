#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

struct Op;
class PackedForm;

/// How verification found an op's results to be made again with equal bits.
struct ReplayMethod {
  std::int8_t formula = -1;  ///< of the kernel that does what it did; -1: the recorded call itself
  bool joins = false;        ///< a kernel may write its result over what the op before it has made
};

/// What pointwise ops do to a result right after it was made.
struct Followers {
  at::Tensor residual;  ///< added first; undefined: nothing is
  bool relu = false;    ///< then negative elements become 0
  [[nodiscard]] int count() const { return (residual.defined() ? 1 : 0) + (relu ? 1 : 0); }
};

/// Makes the result of an op from less work than the recorded call, once the call has been made.
///
/// Stateless and shared by all ops of its kind.
class Substitute {
 public:
  virtual ~Substitute() = default;

  /// Formulas that are the same on paper. Which of them has the bits of the call is for
  /// verification to find, for each op.
  [[nodiscard]] virtual int num_formulas() const = 0;

  /// Whether the recorded call makes the result, too.
  [[nodiscard]] virtual bool has_call() const { return true; }

  /// Whether it does followers in its pass, too.
  [[nodiscard]] virtual bool has_followers() const { return false; }

  /// Whether the call also takes fewer samples, along the first dimension of its input.
  [[nodiscard]] virtual bool takes_samples(const Op& /*op*/) const { return false; }

  /// Changes `tensors`, the op's reads, so that of some elements only what rounding left remains:
  /// formulas then differ by more than 16 bits hide. False where nothing cancels.
  [[nodiscard]] virtual bool cancel(const Op& /*op*/, std::vector<at::Tensor>& /*tensors*/) const {
    return false;
  }

  /// The result, with `followers` done. `tensors` are the op's reads, in their order.
  [[nodiscard]] virtual at::Tensor run(const Op& op, const std::vector<at::Tensor>& tensors,
                                       int formula, const Followers& followers) const = 0;
};

}  // namespace gradrecomp::tape
