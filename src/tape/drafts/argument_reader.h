#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>

#include "tape/drafts/draft.h"
#include "tape/writing/tape_writer.h"

namespace gradrecomp::tape {

/// Whether backward finds a gradient in `tensor`, or in the leaf that it views. What memory it
/// takes depends on that.
[[nodiscard]] bool has_gradient(const at::TensorBase& tensor);

/// Notes in drafts what their calls are given: the values that they read, and all else as it is.
class ArgumentReader {
 public:
  ArgumentReader(const Tape& tape, TapeWriter& writer) : tape_(tape), writer_(writer) {}

  /// `stack` ends with the arguments of the call.
  void read(Draft& draft, const torch::jit::Stack& stack);

 private:
  void look_at_statistics(Draft& draft, c10::ArrayRef<c10::IValue> arguments) const;
  void read_argument(Draft& draft, std::int16_t position, const c10::IValue& argument);
  template <typename Tensor>
  void read_list(Draft& draft, std::int16_t position, const c10::List<Tensor>& tensors);
  void read_tensor(Draft& draft, const at::Tensor& tensor, std::int16_t argument,
                   std::int32_t element);
  [[nodiscard]] bool matters_to_replays(const Op& op, const at::Tensor& statistics) const;

  const Tape& tape_;
  TapeWriter& writer_;
};

}  // namespace gradrecomp::tape
