#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// A list of up to `kMost` elements, without memory of its own: partial plans are copied often.
template <typename T, std::size_t kMost>
class ShortList {
 public:
  /// There must be room.
  void push_back(const T& x) { elements_[size_++] = x; }

  [[nodiscard]] std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  [[nodiscard]] auto begin() { return elements_.begin(); }
  [[nodiscard]] auto begin() const { return elements_.begin(); }
  [[nodiscard]] auto end() { return begin() + static_cast<std::ptrdiff_t>(size_); }
  [[nodiscard]] auto end() const { return begin() + static_cast<std::ptrdiff_t>(size_); }

  [[nodiscard]] bool operator==(const ShortList& other) const {
    return std::ranges::equal(*this, other);
  }
  [[nodiscard]] auto operator<=>(const ShortList& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<T, kMost> elements_{};
  std::size_t size_ = 0;
};

}  // namespace gradrecomp::plan
