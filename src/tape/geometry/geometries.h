#pragma once

#include <unordered_set>

#include "tape/geometry/geometry.h"

namespace gradrecomp::tape {

/// Keeps each geometry once, as tensors of a step come in few: what reads and handles share takes
/// them a pointer instead of a hundred bytes.
///
/// Lifetime: what it returned stays valid as long as it lives.
class Geometries {
 public:
  /// The one of `tensor`.
  const Geometry* of(const at::Tensor& tensor);
  [[nodiscard]] const auto& kept() const { return kept_; }

 private:
  std::unordered_set<Geometry, GeometryHash> kept_;
  const Geometry* last_ = nullptr;
};

}  // namespace gradrecomp::tape
