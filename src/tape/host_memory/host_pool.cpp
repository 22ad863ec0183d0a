#include "tape/host_memory/host_pool.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>

#include "tape/aten/bytes.h"

namespace gradrecomp::tape {
namespace {

/// In front of each block; as large as the alignment, which it keeps.
struct alignas(kAlignment) Header {
  std::size_t size;
};

}  // namespace

HostPool& HostPool::of_process() {
  // Storages may outlive static objects.
  static auto& pool = *new HostPool;
  return pool;
}

c10::DataPtr HostPool::allocate(std::size_t size) {
  const std::lock_guard lock(mutex_);
  auto& blocks = free_[size];
  void* block = nullptr;
  if (!blocks.empty()) {
    block = blocks.back();
    blocks.pop_back();
  } else {
    const std::size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
    block = std::aligned_alloc(kAlignment, sizeof(Header) + padded);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "GradRecomp: out of memory for ", size,
                     " bytes of offloaded activations.");
    ++num_blocks_;
  }
  static_cast<Header*>(block)->size = size;
  return {static_cast<Header*>(block) + 1, block, &HostPool::give_back, c10::kCPU};
}

void HostPool::give_back(void* block) {
  HostPool& pool = of_process();
  const std::lock_guard lock(pool.mutex_);
  pool.free_[static_cast<Header*>(block)->size].push_back(block);
}

void HostPool::trim() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : free_) {
    num_blocks_ -= blocks.size();
    std::ranges::for_each(blocks, &std::free);
  }
  free_.clear();
}

std::size_t HostPool::num_blocks() const {
  const std::lock_guard lock(mutex_);
  return num_blocks_;
}

}  // namespace gradrecomp::tape
