#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tape/op.h"

namespace gradrecomp::tape {

/// Which parts of a value in lent memory handles show, and are there as long as they are, and which
/// parts ops read. There may be thousands of either, as of a sequence that is read token by token.
///
/// Geometries are those that the tape keeps.
class LentParts {
 public:
  void add_handle(const Geometry* shown);
  /// Whether it was the last that shows the same.
  bool remove_handle(const Geometry* shown);
  /// Whether one handle shows all that `part` does, as far as can be told at once.
  [[nodiscard]] bool shows(const Geometry& part) const;
  /// Whether one without gaps shows all of it.
  [[nodiscard]] bool shows(Extent part) const;

  void add_reader(Extent part, OpId op);
  void forget_readers() { readers_.clear(); }
  /// Ops that read a part which begins in `extent`, in any order, maybe more than once.
  [[nodiscard]] std::vector<OpId> readers_in(Extent extent);

  /// Of heap that it takes.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::unordered_map<const Geometry*, std::int64_t> handles_;  // how many show the same
  // Those without gaps, by begin and end.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> dense_;
  std::int64_t longest_dense_ = 0;
  std::vector<std::pair<std::int64_t, OpId>> readers_;  // by where the part begins
  bool are_sorted_ = true;
};

}  // namespace gradrecomp::tape
