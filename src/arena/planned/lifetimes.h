#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::arena {

/// When a block of a step was alive: from one allocation or release of the step's to another.
struct Lifetime {
  static constexpr std::int64_t kNeverEnds = -1;

  std::size_t bytes = 0;
  std::int64_t begin = 0;
  std::int64_t end = kNeverEnds;  ///< kNeverEnds: it outlived the step

  [[nodiscard]] bool ends() const { return end != kNeverEnds; }
  bool operator==(const Lifetime&) const = default;
};

/// The blocks of a step, in the order in which they were allocated.
using Lifetimes = std::vector<Lifetime>;

/// Notes what one step allocates and frees. What it frees of earlier blocks does not count.
class LifetimeLog {
 public:
  void allocated(const void* block, std::size_t bytes);
  void freed(const void* block);

  [[nodiscard]] const Lifetimes& lifetimes() const { return lifetimes_; }

 private:
  Lifetimes lifetimes_;
  std::unordered_map<const void*, std::size_t> alive_;  ///< to their place among the lifetimes
  std::int64_t now_ = 0;
};

}  // namespace gradrecomp::arena
