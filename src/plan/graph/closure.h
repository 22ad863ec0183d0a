#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Finds the ops that replay a value from what a kept set holds, one query after another.
class Closure {
 public:
  explicit Closure(const Graph& graph) : graph_(graph), stamp_(graph.ops.size(), 0) {}

  /// The ops of the smallest closure of `v`, unordered; empty if `v` is available itself.
  std::span<const Index> find(Index v, std::span<const std::uint8_t> keep);

  /// Adds the closure of `v` to that of the queries since the last find().
  std::span<const Index> extend(Index v, std::span<const std::uint8_t> keep);

  /// Whether `v` is there in backward without a replay (until it is wanted no more).
  [[nodiscard]] bool available(Index v, std::span<const std::uint8_t> keep) const;

 private:
  const Graph& graph_;
  std::vector<Index> stamp_;
  Index round_ = 0;
  std::vector<Index> ops_;
  std::vector<Index> stack_;
};

}  // namespace gradrecomp::plan
