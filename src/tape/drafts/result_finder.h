#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>

#include "tape/drafts/draft.h"
#include "tape/writing/tape_writer.h"

namespace gradrecomp::tape {

/// Whether what `op` makes hangs on no content, so that the program may be about to fill it.
[[nodiscard]] bool is_factory(const Op& op);
/// Whether `op` writes one tensor and reads none, so that its result is like a factory's.
[[nodiscard]] bool fills_alone(const Op& op);

/// Whether its content was never written, so that its size does not matter.
[[nodiscard]] bool is_rubbish(const Value& value);

/// Notes in drafts what their calls have made, and puts those values on the tape.
class ResultFinder {
 public:
  ResultFinder(Tape& tape, TapeWriter& writer) : tape_(tape), writer_(writer) {}

  /// What the call returned; `stack` ends with that.
  void find_returned(Draft& draft, const torch::jit::Stack& stack);
  /// What it wrote in place.
  void find_written(Draft& draft);

 private:
  void find_result(Draft& draft, const at::Tensor& tensor, std::int16_t output,
                   std::int32_t element, c10::ArrayRef<c10::IValue> returned);
  void find_version(Draft& draft, const Draft::Written& written, c10::Storage storage);

  /// The content that an op writes over.
  struct Before {
    bool was_printed = false;
    bool was_rubbish = false;
    bool is_replaced = false;  ///< from end to end
    bool is_constant = false;  ///< to autograd, which goes on not to follow it
  };
  void print_version(const Draft& draft, ValueId value, ValueId old, const Geometry& shown,
                     const Before& before);
  void print_result(const Draft& draft, ValueId value, const Geometry& geometry, bool by_factory);

  Tape& tape_;
  TapeWriter& writer_;
};

}  // namespace gradrecomp::tape
