#include "memory/allocator.h"

#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstring>

#include "gradrecomp/device/allocations.h"

namespace gradrecomp::test::host_device {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingDeviceAllocator::DeviceStats;
using Lock = std::lock_guard<std::recursive_mutex>;

std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kBlock = 512;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

void count(Stat& stat, std::size_t bytes, int sign) {
  stat.current += sign * static_cast<std::int64_t>(bytes);
  stat.peak = std::max(stat.peak, stat.current);
}

}  // namespace

Allocator& allocator() {
  static auto* allocator = new Allocator;  // blocks may outlive statics
  return *allocator;
}

c10::DataPtr Allocator::allocate(std::size_t bytes) {
  const c10::Device device = current_device();
  if (bytes == 0) return {nullptr, nullptr, &Allocator::free, device};
  const Lock lock(mutex());
  TORCH_CHECK_WITH(OutOfMemoryError, num_allocations_++ != failing_, "the device is full");
  give_back_what_is_done();
  const Block block = take(bytes);
  live_[block.pointer] = block;
  auto& stats = stats_[device.index()];
  count(stats.requested_bytes[0], block.requested, 1);
  count(stats.allocated_bytes[0], block.size, 1);
  device::report_allocated(block.pointer, bytes, device);
  if (block.owner != nullptr) poison(*block.owner, block.pointer, block.size);
  return {block.pointer, block.pointer, &Allocator::free, device};
}

Allocator::Block Allocator::take(std::size_t bytes) {
  const c10::Device device = current_device();
  Block block{.requested = bytes, .size = rounded(bytes), .device = device.index()};
  if (!is_asynchronous()) {
    block.pointer = c10::alloc_cpu(bytes);
    return block;
  }
  block.owner = &Scheduler::get().current(device);
  poison_freed(*block.owner);
  auto& pool = pools_[{block.owner, block.size}];
  if (!pool.empty()) {
    block.pointer = pool.back();
    pool.pop_back();
    return block;
  }
  block.pointer = c10::alloc_cpu(block.size);
  count(stats_[device.index()].reserved_bytes[0], block.size, 1);
  return block;
}

void Allocator::poison(Queue& owner, void* pointer, std::size_t size) {
  Scheduler::get().enqueue(owner, [=, byte = poison_] { std::memset(pointer, byte, size); });
}

void Allocator::poison_freed(Queue& owner) {
  const auto freed = std::exchange(not_poisoned_[&owner], {});
  for (const auto& [pointer, size] : freed) poison(owner, pointer, size);
}

void Allocator::free(void* pointer) {
  if (pointer != nullptr) allocator().release(pointer);
}

// What is allocated counts until it is freed, what is requested until it is no longer used: as on
// CUDA.
void Allocator::release(void* pointer) {
  const Lock lock(mutex());
  const auto entry = live_.find(pointer);
  Block block = std::move(entry->second);
  live_.erase(entry);
  count(stats_[block.device].allocated_bytes[0], block.size, -1);
  device::report_freed(pointer, c10::Device(c10::kPrivateUse1, block.device));
  for (Queue* user : block.users) block.last_uses.push_back(user->end());
  freed_in_use_.push_back(std::move(block));
  give_back_what_is_done();
}

void Allocator::give_back_what_is_done() {
  const auto is_done = [](const Block& block) {
    return std::ranges::all_of(block.last_uses, &Place::is_done);
  };
  const auto first_done = std::stable_partition(freed_in_use_.begin(), freed_in_use_.end(),
                                                [&](const auto& block) { return !is_done(block); });
  const std::vector<Block> done(first_done, freed_in_use_.end());
  freed_in_use_.erase(first_done, freed_in_use_.end());
  for (const Block& block : done) give_back(block);
}

void Allocator::give_back(const Block& block) {
  count(stats_[block.device].requested_bytes[0], block.requested, -1);
  if (block.owner == nullptr) return c10::free_cpu(block.pointer);
  if (!is_asynchronous()) {
    count(stats_[block.device].reserved_bytes[0], block.size, -1);
    return c10::free_cpu(block.pointer);
  }
  not_poisoned_[block.owner][block.pointer] = block.size;
  pools_[{block.owner, block.size}].push_back(block.pointer);
}

void Allocator::emptyCache(c10::MempoolId_t /*pool*/) {
  const Lock lock(mutex());
  Scheduler::get().synchronize_all();
  give_back_what_is_done();
  not_poisoned_.clear();
  for (const auto& [key, pointers] : pools_) {
    auto& reserved = stats_[key.first->device().index()].reserved_bytes[0];
    for (void* pointer : pointers) {
      count(reserved, key.second, -1);
      c10::free_cpu(pointer);
    }
  }
  pools_.clear();
}

void Allocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  const Lock lock(mutex());
  const auto entry = live_.find(data.get_context());
  if (entry == live_.end() || entry->second.owner == nullptr) return;
  Queue* user = &Scheduler::get().queue(stream);
  auto& users = entry->second.users;
  if (user != entry->second.owner && std::ranges::find(users, user) == users.end()) {
    users.push_back(user);
  }
}

DeviceStats Allocator::getDeviceStats(c10::DeviceIndex device) {
  const Lock lock(mutex());
  give_back_what_is_done();
  return stats_[device];
}

void Allocator::resetPeakStats(c10::DeviceIndex device) {
  const Lock lock(mutex());
  auto& stats = stats_[device];
  for (Stat* stat :
       {&stats.requested_bytes[0], &stats.allocated_bytes[0], &stats.reserved_bytes[0]}) {
    stat->peak = stat->current;
  }
}

void Allocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  const Lock lock(mutex());
  Scheduler::get().enqueue(Scheduler::get().current(current_device()),
                           [=] { std::memcpy(to, from, bytes); });
}

}  // namespace gradrecomp::test::host_device
