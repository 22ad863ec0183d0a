#pragma once

#include <torch/types.h>

#include <vector>

namespace gradrecomp::program {

/// A copy of tensors in memory that no tensor allocator counts, so that it disturbs no peak.
class TensorSnapshot {
 public:
  TensorSnapshot() = default;
  explicit TensorSnapshot(const std::vector<torch::Tensor>& tensors);

  /// Whether `tensors` are what was copied, bit for bit; undefined ones equal each other.
  [[nodiscard]] bool equals(const std::vector<torch::Tensor>& tensors) const;
  /// How far `tensors` are from what was copied: the root of the sum of all squared differences,
  /// over that of all squares of what was copied. Counts what has a fraction, where both are
  /// defined.
  [[nodiscard]] double relative_error(const std::vector<torch::Tensor>& tensors) const;
  /// Copies the content back. `tensors` have the shapes and types of those that were copied.
  void restore(const std::vector<torch::Tensor>& tensors) const;

 private:
  std::vector<torch::Tensor> copies_;
};

}  // namespace gradrecomp::program
