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
/// (from_blob(h.data_ptr()), DLPack), an operator's write, but to no storage that the tape knows;
/// or to that while it goes on with what the region has read through such a tensor.
class LentAliases {
 public:
  using Found = std::vector<std::pair<ValueId, c10::Storage>>;

  explicit LentAliases(const Tape& tape) : tape_(tape) {}

  /// The values in whose memory a write to `written` may write, too: none unless they or it are in
  /// lent memory. Call it before each such write.
  [[nodiscard]] Found of(const at::Tensor& written);

 private:
  using Range = std::pair<const char*, const char*>;

  void find_new(const c10::StorageImpl& lent, Found& found);
  void find_lent(const c10::StorageImpl& memory, Found& found);
  void add_if_alias(ValueId id, const c10::StorageImpl& memory, Found& found) const;

  const Tape& tape_;
  /// How many values have been compared with such a range of memory. Each write makes a new value
  /// of what it finds, and values do not move, so that only new ones can be found later.
  std::map<Range, ValueId> num_compared_;
  std::vector<ValueId> lent_;  ///< values in lent memory, of the first so many
  ValueId num_known_ = 0;
};

}  // namespace gradrecomp::tape
