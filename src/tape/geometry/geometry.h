#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/SizesAndStrides.h>

#include <algorithm>
#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Bytes of a storage from `begin` up to `end`.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const Extent&) const = default;
};

inline std::int64_t size_of(Extent extent) { return extent.end - extent.begin; }

inline bool covers(Extent outer, Extent inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

inline bool overlap(Extent one, Extent other) {
  return one.begin < other.end && other.begin < one.end;
}

/// The least that covers both.
inline Extent hull(Extent one, Extent other) {
  if (size_of(one) <= 0) return other;
  if (size_of(other) <= 0) return one;
  return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
}

/// Everything of a tensor but its storage: how to read a value through one argument.
///
/// Memory: holds no storage and no autograd metadata, so a tape cannot keep a graph alive.
class Geometry {
 public:
  Geometry() = default;
  explicit Geometry(const at::Tensor& tensor);

  /// Whether it is that of `tensor`.
  [[nodiscard]] bool is_of(const at::Tensor& tensor) const;
  /// A fresh tensor over `storage`, equal to the described one but outside any autograd graph.
  [[nodiscard]] at::Tensor over(c10::Storage storage) const;

  [[nodiscard]] c10::IntArrayRef sizes() const { return shape_.sizes_arrayref(); }
  [[nodiscard]] c10::IntArrayRef strides() const { return shape_.strides_arrayref(); }
  /// Whether both make the same elements of the same bytes, wherever these begin.
  [[nodiscard]] bool shows_like(const Geometry& other) const;
  /// Whether both show the same elements of one storage.
  [[nodiscard]] bool shows_same(const Geometry& other) const {
    return shows_like(other) && storage_offset_ == other.storage_offset_ && keys_ == other.keys_;
  }
  bool operator==(const Geometry& other) const {
    return shows_same(other) && wrapped_number_ == other.wrapped_number_;
  }
  /// Whether its elements are what the bytes say, and not their conjugates or negatives.
  [[nodiscard]] bool shows_its_bytes() const;
  [[nodiscard]] std::size_t hash() const;
  /// Whether it shows each element of a storage of so many bytes, once, in whatever order.
  [[nodiscard]] bool fills(std::int64_t storage_bytes) const;
  /// Whether it shows all memory of its extent, each element once.
  [[nodiscard]] bool is_dense() const { return is_dense_; }
  /// The bytes of the storage from the first that it shows to the last.
  [[nodiscard]] Extent extent() const;
  /// The kind of device.
  [[nodiscard]] c10::BackendComponent backend() const { return keys_.highestBackendKey(); }
  [[nodiscard]] bool is_on_cpu() const { return backend() == c10::BackendComponent::CPUBit; }
  [[nodiscard]] c10::ScalarType scalar_type() const { return dtype_.toScalarType(); }

 private:
  c10::impl::SizesAndStrides shape_;
  std::int64_t storage_offset_ = 0;
  caffe2::TypeMeta dtype_;
  c10::DispatchKeySet keys_;
  bool is_dense_ = false;
  bool wrapped_number_ = false;  // decides type promotion, so replay must see it again
};

struct GeometryHash {
  std::size_t operator()(const Geometry& geometry) const { return geometry.hash(); }
};

}  // namespace gradrecomp::tape
