#include "kernels/cpu/tile.h"

#include <algorithm>

namespace gradrecomp::kernels {

// The buffers are left as they are: they are written before they are read.
Tile::Tile(Dtype dtype, const void* x, void* y, std::int64_t first, std::int64_t size)
    : dtype_(dtype), y_(y), first_(first), size_(size) {
  if (dtype == Dtype::float32) {
    input_ = static_cast<const float*>(x) + first;
    values_ = static_cast<float*>(y) + first;
  } else {
    vector_loops().load(dtype, static_cast<const std::uint16_t*>(x) + first, buffer_, size);
    input_ = values_ = buffer_;
  }
}

const float* Tile::operand(const void* tensor) {
  if (dtype_ == Dtype::float32) return static_cast<const float*>(tensor) + first_;
  vector_loops().load(dtype_, static_cast<const std::uint16_t*>(tensor) + first_, operand_buffer_,
                      size_);
  return operand_buffer_;
}

void Tile::computed() {
  filled_ = true;
  rounded_ = dtype_ == Dtype::float32;
}

// Brings the values to where a step in place can work on them, rounded.
void Tile::settle() {
  if (!filled_ && input_ != values_) std::copy_n(input_, size_, values_);
  filled_ = true;
  if (!rounded_) vector_loops().round(dtype_, values_, size_);
  rounded_ = true;
}

void Tile::apply(const Step& step) {
  // A first step that has an output of its own spares the copy of the input.
  const bool binary = step.kind == StepKind::add || step.kind == StepKind::mul;
  const bool first = binary && !filled_;
  if (!first) settle();
  const float* source = first ? input_ : values_;
  switch (step.kind) {
    case StepKind::relu:
      return vector_loops().relu(values_, size_);  // exact
    case StepKind::add:
      vector_loops().add(source, operand(step.operand), values_, size_);
      break;
    case StepKind::mul:
      vector_loops().mul(source, operand(step.operand), values_, size_);
      break;
    case StepKind::add_scalar:
      vector_loops().add_scalar(values_, step.scalar, size_);
      break;
    case StepKind::mul_scalar:
      vector_loops().mul_scalar(values_, step.scalar, size_);
      break;
    case StepKind::div_scalar:
      vector_loops().div_scalar(values_, step.scalar, size_);
      break;
    case StepKind::mask:
      vector_loops().mask(values_, static_cast<const std::uint8_t*>(step.operand) + first_, size_);
      return;  // exact: by 0 or 1
  }
  computed();
}

void Tile::finish() {
  if (dtype_ == Dtype::float32) return settle();
  vector_loops().store(dtype_, values_, static_cast<std::uint16_t*>(y_) + first_, size_);
}

}  // namespace gradrecomp::kernels
