#include "arena/planned/lifetimes.h"

namespace gradrecomp::arena {

void LifetimeLog::allocated(const void* block, std::size_t bytes) {
  alive_[block] = lifetimes_.size();
  lifetimes_.push_back({.bytes = bytes, .begin = now_++});
}

void LifetimeLog::freed(const void* block) {
  const auto found = alive_.find(block);
  if (found == alive_.end()) return;
  lifetimes_[found->second].end = now_++;
  alive_.erase(found);
}

}  // namespace gradrecomp::arena
