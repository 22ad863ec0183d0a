#pragma once

#include <span>

#include "gradrecomp/kernels/pointwise.h"
#include "kernels/cpu/vector_loops.h"

namespace gradrecomp::kernels {

/// Elements worked on at a time: with an operand and the result they fit the nearest cache.
inline constexpr std::int64_t kTile = 2048;

/// Float32 values of one tile of a tensor of any dtype, from its load to its store.
///
/// Float32 tensors are worked on where they are; others in a buffer.
class Tile {
 public:
  /// The `size` elements from `first` on of x and y, whose elements are of `dtype`.
  Tile(Dtype dtype, const void* x, void* y, std::int64_t first, std::int64_t size);

  /// What is there before the first step; `values()` may be the same memory.
  [[nodiscard]] const float* input() const { return input_; }
  [[nodiscard]] float* values() { return values_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t first() const { return first_; }

  /// Says that a step has filled values(), which are as yet unrounded.
  void computed();
  /// Applies one step to the values, or to the input if nothing was computed yet.
  void apply(const Step& step);
  /// Rounds and stores.
  void finish();

 private:
  const float* operand(const void* tensor);
  void settle();

  Dtype dtype_;
  void* y_;
  std::int64_t first_;
  std::int64_t size_;
  const float* input_;
  float* values_;
  bool rounded_ = true;
  bool filled_ = false;
  alignas(64) float buffer_[kTile];
  alignas(64) float operand_buffer_[kTile];
};

}  // namespace gradrecomp::kernels
