#include "tape/host_memory/hash_slabs.h"

#include <algorithm>
#include <utility>

#include "tape/host_memory/pinned_storage.h"

namespace gradrecomp::tape {
namespace {

constexpr std::int64_t kSlabHashes = std::int64_t{1} << 15;  // 256 KiB

std::int64_t hashes_in(const c10::Storage& slab) {
  return static_cast<std::int64_t>(slab.nbytes() / sizeof(std::uint64_t));
}

}  // namespace

std::uint64_t* HashSlabs::allocate(std::int64_t num_hashes) {
  while (num_full_ < slabs_.size() && used_ + num_hashes > hashes_in(slabs_[num_full_])) {
    ++num_full_;
    used_ = 0;
  }
  if (num_full_ == slabs_.size()) {
    const std::int64_t size = std::max(num_hashes, kSlabHashes);
    slabs_.push_back(pinned_storage(static_cast<std::size_t>(size) * sizeof(std::uint64_t)));
  }
  auto* slab = static_cast<std::uint64_t*>(slabs_[num_full_].mutable_data());
  return slab + std::exchange(used_, used_ + num_hashes);
}

void HashSlabs::clear() {
  num_full_ = 0;
  used_ = 0;
}

}  // namespace gradrecomp::tape
