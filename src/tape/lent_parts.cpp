#include "tape/lent_parts.h"

#include <algorithm>

#include "tape/aten/heap_blocks.h"

namespace gradrecomp::tape {

void LentParts::add_handle(const Geometry* shown) {
  ++handles_[shown];
  if (!shown->is_dense()) return;
  const Extent extent = shown->extent();
  ++dense_[{extent.begin, extent.end}];
  longest_dense_ = std::max(longest_dense_, size_of(extent));
}

bool LentParts::remove_handle(const Geometry* shown) {
  const auto like_it = handles_.find(shown);
  if (like_it == handles_.end()) return false;
  if (shown->is_dense()) {
    const Extent extent = shown->extent();
    const auto dense = dense_.find({extent.begin, extent.end});
    if (--dense->second == 0) dense_.erase(dense);
  }
  if (--like_it->second > 0) return false;
  handles_.erase(like_it);
  return true;
}

bool LentParts::shows(const Geometry& part) const {
  return handles_.contains(&part) || shows(part.extent());
}

// No handle is longer than the longest, so those that begin further before cannot reach its end.
bool LentParts::shows(Extent part) const {
  for (auto dense = dense_.lower_bound({part.end - longest_dense_, 0});
       dense != dense_.end() && dense->first.first <= part.begin; ++dense) {
    if (part.end <= dense->first.second) return true;
  }
  return false;
}

void LentParts::add_reader(Extent part, OpId op) {
  are_sorted_ = are_sorted_ && (readers_.empty() || readers_.back().first <= part.begin);
  readers_.emplace_back(part.begin, op);
}

std::vector<OpId> LentParts::readers_in(Extent extent) {
  if (!are_sorted_) std::ranges::sort(readers_);
  are_sorted_ = true;
  std::vector<OpId> found;
  const auto begin_of = &std::pair<std::int64_t, OpId>::first;
  for (auto reader = std::ranges::lower_bound(readers_, extent.begin, {}, begin_of);
       reader != readers_.end() && reader->first < extent.end; ++reader) {
    found.push_back(reader->second);
  }
  return found;
}

std::int64_t LentParts::bytes() const {
  return block_bytes(sizeof(LentParts)) + node_bytes_of(handles_) + node_bytes_of(dense_) +
         block_bytes_of(readers_);
}

}  // namespace gradrecomp::tape
