#include "memory/pinned_memory.h"

#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstring>

namespace gradrecomp::test::host_device {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

constexpr int kPoison = 0x5b;

template <typename Blocks>
auto block_with(Blocks& blocks, const void* pointer) {
  auto next = blocks.upper_bound(pointer);
  if (next == blocks.begin()) return blocks.end();
  --next;
  const auto* begin = static_cast<const char*>(next->first);
  return static_cast<const char*>(pointer) < begin + next->second.size ? next : blocks.end();
}

}  // namespace

PinnedMemory& pinned_memory() {
  static auto* memory = new PinnedMemory;  // blocks may outlive statics
  return *memory;
}

c10::DataPtr PinnedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &PinnedMemory::free, c10::kCPU};
  const Lock lock(mutex());
  TORCH_CHECK_WITH(OutOfMemoryError, !refuses_, "out of pinned memory");
  free_what_is_done();
  void* pointer = c10::alloc_cpu(bytes);
  std::memset(pointer, kPoison, bytes);
  live_[pointer] = {bytes};
  return {pointer, pointer, &PinnedMemory::free, c10::kCPU};
}

void PinnedMemory::free(void* pointer) {
  if (pointer == nullptr) return;
  const Lock lock(mutex());
  auto& memory = pinned_memory();
  const auto entry = memory.live_.find(pointer);
  memory.freed_in_use_[pointer] = std::move(entry->second);
  memory.live_.erase(entry);
  memory.free_what_is_done();
}

void PinnedMemory::free_what_is_done() {
  std::erase_if(freed_in_use_, [](const auto& entry) {
    const auto& [pointer, block] = entry;
    if (!std::ranges::all_of(block.uses, &Place::is_done)) return false;
    std::memset(pointer, kPoison, block.size);
    c10::free_cpu(pointer);
    return true;
  });
}

bool PinnedMemory::contains(const void* pointer) const {
  const Lock lock(mutex());
  return block_with(live_, pointer) != live_.end();
}

void PinnedMemory::note_use(const void* pointer, Queue& queue) {
  const auto entry = block_with(live_, pointer);
  if (entry != live_.end()) entry->second.uses.push_back(queue.end());
}

}  // namespace gradrecomp::test::host_device
