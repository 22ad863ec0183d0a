#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// What two values must have in common to be alike, besides the name of the op that makes them and
/// whether autograd saves them.
enum class Likeness : std::uint8_t {
  of_equal_size,  ///< bytes, and the FLOPs of their op: they are the same part of equal layers
  of_any_size,    ///< nothing: they are the same part of layers that may differ in width
};

/// Which of a graph's values are the same part of a layer that comes again and again.
class AlikeValues {
 public:
  /// Of `values`, in this order; from here on they are known by their positions in it.
  AlikeValues(const Graph& graph, std::span<const Index> values);

  [[nodiscard]] bool are_alike(std::size_t a, std::size_t b, Likeness likeness) const;
  /// The positions of all that are alike to the value at `position`, itself among them; ascending.
  [[nodiscard]] std::span<const std::size_t> alike_to(std::size_t position,
                                                      Likeness likeness) const;

 private:
  struct Groups {
    std::vector<std::size_t> group_of;  ///< per position
    std::vector<std::vector<std::size_t>> positions;
  };

  static Groups groups(const Graph& graph, std::span<const Index> values, Likeness likeness);
  [[nodiscard]] const Groups& of(Likeness likeness) const {
    return likeness == Likeness::of_equal_size ? of_equal_size_ : of_any_size_;
  }

  Groups of_equal_size_;
  Groups of_any_size_;
};

}  // namespace gradrecomp::plan
