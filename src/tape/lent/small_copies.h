#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Of what is small enough to be held as a copy.
inline constexpr std::int64_t kMostCopiedBytes = 65536;

/// Whether `tensor`, of which the memory may be gone or overwritten by the time of a replay, is
/// copied rather than what reads it kept: from its first byte to its last it is small.
[[nodiscard]] bool is_worth_a_copy(const at::Tensor& tensor);

/// Copies that are read instead of such tensors: one for all ops that read a tensor while its
/// content stays the same.
class SmallCopies {
 public:
  explicit SmallCopies(const Tape& tape) : tape_(tape) {}

  /// The copy of the current content of `tensor`; undefined if there is none. Writes to lent
  /// memory go unreported, and that of devices cannot be compared at once, so it never has one.
  at::Tensor find(const at::Tensor& tensor);
  void add(const at::Tensor& tensor, const at::Tensor& copy, ValueId value);

 private:
  struct Copy {
    const void* address;  ///< of the tensor
    Geometry geometry;    ///< of both, but for where they begin
    ValueId value;
  };

  const Tape& tape_;
  std::vector<Copy> copies_;
};

}  // namespace gradrecomp::tape
