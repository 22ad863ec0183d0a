#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Whether `parameter`, in memory that the program lends, is copied rather than what reads it kept:
/// it is small, and ops that read a copy of it make the same bits (some follow strides).
[[nodiscard]] bool is_worth_a_copy(const at::Tensor& parameter);

/// What is read instead of parameters in lent memory: one copy for all ops that read such a
/// parameter while it contains the same.
class ParameterCopies {
 public:
  explicit ParameterCopies(const Tape& tape) : tape_(tape) {}

  /// The copy of what `parameter` contains now; undefined if there is none. Nothing tells of writes
  /// to lent memory, and that of devices cannot be compared at once: there never is one of that.
  at::Tensor find(const at::Tensor& parameter);
  void add(const at::Tensor& parameter, const at::Tensor& copy, ValueId value);

 private:
  struct Copy {
    const void* address;  ///< of the parameter
    Geometry geometry;    ///< of both, but for where they begin
    ValueId value;
  };

  const Tape& tape_;
  std::vector<Copy> copies_;
};

}  // namespace gradrecomp::tape
