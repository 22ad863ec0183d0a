#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Pinned host memory for hashes that a device writes.
class HashSlabs {
 public:
  /// Room for so many, valid until clear().
  /// Throws: c10::Error if there is no pinned memory.
  std::uint64_t* allocate(std::int64_t num_hashes);
  /// All of it may be used anew.
  void clear();

 private:
  std::vector<c10::Storage> slabs_;
  std::size_t num_full_ = 0;  // slabs that nothing more is taken from
  std::int64_t used_ = 0;     // hashes in the slab after those
};

}  // namespace gradrecomp::tape
