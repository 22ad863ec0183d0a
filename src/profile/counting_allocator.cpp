#include "profile/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/util/Flags.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "arena/host_arena.h"
#include "profile/allocation_sink.h"
#include "profile/device_log.h"
#include "profile/listing_allocator.h"
#include "tape/aten/lent_memory.h"

// Of LibTorch's own allocator for the CPU.
C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);
C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);
C10_DECLARE_bool(caffe2_cpu_numa_enabled);

namespace gradrecomp::profile {
namespace {

std::atomic<std::int64_t> current_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};
std::atomic<std::int64_t> total_bytes{0};
// Tensors of static or thread duration are freed when the sinks of their thread may be gone. So
// these are reached through a pointer, which lasts as long as the thread and is null by then.
using Sinks = std::vector<std::weak_ptr<AllocationSink>>;
constinit thread_local Sinks* present_sinks = nullptr;
constinit thread_local bool sinks_are_gone = false;

struct SinksOfThread {
  SinksOfThread() { present_sinks = &sinks; }
  ~SinksOfThread() {
    present_sinks = nullptr;
    sinks_are_gone = true;
  }
  Sinks sinks;
};

Sinks* sinks_of_thread() {
  if (sinks_are_gone) return nullptr;
  thread_local SinksOfThread of_thread;
  return &of_thread.sinks;
}

bool is_same(const std::weak_ptr<AllocationSink>& one, const std::weak_ptr<AllocationSink>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

template <typename Visit>
void for_each_sink(const Visit& visit) {
  if (present_sinks == nullptr) return;
  // By position, as a sink may let go of what adds another.
  for (std::size_t i = 0; i < present_sinks->size(); ++i) {
    if (const auto alive = (*present_sinks)[i].lock()) visit(*alive);
  }
}

/// Lies in front of a block and tells it from those of the allocator that was there before, whose
/// blocks may be given back through this one.
struct Header {
  std::size_t bytes = 0;
  std::size_t front_bytes = 0;  // from where the other allocator's block begins
  std::size_t mark = 0;
};

// Blocks begin at odd multiples of the alignment. So what lies in front of one that could be ours
// is on the same page, and can be read whichever allocator owns it.
constexpr std::size_t kUnit = c10::gAlignment;  // of all that LibTorch's allocators return
static_assert(kUnit >= sizeof(Header));

std::size_t address_of(const void* pointer) { return reinterpret_cast<std::size_t>(pointer); }

bool is_odd(const void* pointer) { return address_of(pointer) % (2 * kUnit) == kUnit; }

std::size_t mark_of(const void* pointer, const Header& header) {
  constexpr std::size_t kSeed = 0x9e3779b97f4a7c15u;
  return (address_of(pointer) ^ (header.bytes * 4 + header.front_bytes) * kSeed) ^ kSeed;
}

// To the address sanitizer it lies out of bounds where the block is the other allocator's.
__attribute__((no_sanitize("address"))) Header header_of(const void* pointer) {
  return *reinterpret_cast<const Header*>(static_cast<const char*>(pointer) - kUnit);
}

void* with_header(void* block, std::size_t bytes) {
  auto* pointer = static_cast<char*>(block) + (is_odd(block) ? 2 * kUnit : kUnit);
  Header header{bytes, address_of(pointer) - address_of(block)};
  header.mark = mark_of(pointer, header);
  std::memcpy(pointer - kUnit, &header, sizeof(header));
  return pointer;
}

// What these flags ask for, LibTorch's own allocator does to each block.
bool blocks_are_prepared() {
  return FLAGS_caffe2_cpu_allocator_do_zero_fill || FLAGS_caffe2_cpu_allocator_do_junk_fill ||
         FLAGS_caffe2_cpu_numa_enabled;
}

// Allocates large blocks from the host arena, and others from LibTorch's own allocator, whose
// blocks are aligned. A DataPtr's get() == get_context(), as code that takes raw pointers from an
// allocator requires.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &CountingAllocator::free, c10::kCPU};
    constexpr auto kMost = std::numeric_limits<std::size_t>::max() - 2 * kUnit;
    if (bytes > kMost) return base_->allocate(bytes);  // which says that there is no such memory
    void* pointer = with_header(allocate_block(bytes + 2 * kUnit), bytes);
    count_allocated(pointer, bytes);
    return {pointer, pointer, &CountingAllocator::free, c10::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free(void* pointer);

  void* allocate_block(std::size_t bytes) {
    void* block = nullptr;
    if (!blocks_are_prepared()) {
      block = arena::HostArena::of_process().allocate(bytes);
    }
    if (block == nullptr) return base_->raw_allocate(bytes);
    c10::profiledCPUMemoryReporter().New(block, bytes);  // as LibTorch's own does
    return block;
  }

  void free_block(void* block) {
    if (arena::HostArena::of_process().owns(block)) {
      c10::profiledCPUMemoryReporter().Delete(block);
      arena::HostArena::of_process().free(block);
    } else {
      base_->raw_deallocate(block);
    }
  }

  c10::Allocator* base_;
};

CountingAllocator* installed = nullptr;

void CountingAllocator::free(void* pointer) {
  if (pointer == nullptr) return;
  const Header header = is_odd(pointer) ? header_of(pointer) : Header{};
  const bool is_ours = header.mark == mark_of(pointer, header) && header.front_bytes > 0;
  if (!is_ours) return installed->base_->raw_deallocate(pointer);
  // The block may come back at once, as a plain one of the other allocator.
  std::memset(static_cast<char*>(pointer) - kUnit, 0, sizeof(header));
  count_freed(pointer, header.bytes);
  installed->free_block(static_cast<char*>(pointer) - header.front_bytes);
}

/// Has it the priority that `base` was set with, so that what the program sets later counts as much
/// as it would have.
void take_place_of(const c10::Allocator* base, c10::Allocator* allocator) {
  for (int priority = 0; c10::GetCPUAllocator() == base; ++priority) {
    c10::SetCPUAllocator(allocator, static_cast<std::uint8_t>(priority));
  }
}

}  // namespace

MemoryCounter cpu_counter() noexcept { return {current_bytes, peak_bytes, total_bytes}; }

bool uses_host_arena() noexcept { return installed != nullptr; }

std::int64_t exchange_cpu_peak() noexcept { return peak_bytes.exchange(current_bytes); }

void raise_cpu_peak(std::int64_t bytes) noexcept {
  auto peak = peak_bytes.load();
  while (bytes > peak && !peak_bytes.compare_exchange_weak(peak, bytes)) {
  }
}

void count_allocated(void* pointer, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  total_bytes += size;
  raise_cpu_peak(current_bytes += size);
  for_each_sink([&](AllocationSink& sink) { sink.allocated(pointer, bytes); });
  report_host(pointer, bytes, false);
}

void count_freed(void* pointer, std::size_t bytes) {
  current_bytes -= static_cast<std::int64_t>(bytes);
  for_each_sink([&](AllocationSink& sink) { sink.freed(pointer, bytes); });
  report_host(pointer, bytes, true);
}

void add_allocation_sink(std::weak_ptr<AllocationSink> sink) {
  Sinks* const sinks = sinks_of_thread();
  if (sinks == nullptr) return;
  if (std::ranges::any_of(*sinks, [&](const auto& other) { return is_same(sink, other); })) return;
  std::erase_if(*sinks, [](const auto& other) { return other.expired(); });
  sinks->push_back(std::move(sink));
}

}  // namespace gradrecomp::profile

void gradrecomp::install_cpu_counter() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never deleted: blocks may be freed after the program's statics are gone.
    c10::Allocator* const base = c10::GetCPUAllocator();
    tape::know_former_allocator(base);
    if (base != c10::GetDefaultCPUAllocator()) {
      return profile::take_place_of(base, new profile::ListingAllocator(base));
    }
    profile::installed = new profile::CountingAllocator(base);
    profile::take_place_of(base, profile::installed);
  });
}
