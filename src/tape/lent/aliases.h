#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <utility>
#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Finds what the tape knows by other storages in memory that the program lends.
///
/// A program may write to what the region made through a tensor of its own over the same memory
/// (from_blob(h.data_ptr()), DLPack): an operator's write, but to no storage that the tape knows.
class LentAliases {
 public:
  explicit LentAliases(const Tape& tape) : tape_(tape) {}

  /// The values in whose memory a write to `written` may write, too, with that memory; none unless
  /// it is lent. Call it before each such write.
  [[nodiscard]] std::vector<std::pair<ValueId, c10::Storage>> of(const at::Tensor& written);

 private:
  using Range = std::pair<const char*, const char*>;

  const Tape& tape_;
  /// How many values have been compared with such a range of memory. Each write makes a new value
  /// of what it finds, and values do not move, so that only new ones can be found later.
  std::map<Range, ValueId> num_compared_;
};

}  // namespace gradrecomp::tape
