#include "counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "gradrecomp/profile/allocation_sink.h"

namespace gradrecomp::profile {
namespace {

std::atomic<std::int64_t> current_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};
std::atomic<std::int64_t> total_bytes{0};
thread_local std::vector<std::weak_ptr<AllocationSink>> allocation_sinks;

// The size of a block lies in front of it; one alignment unit, so that the block stays aligned.
constexpr std::size_t kHeaderBytes = c10::gAlignment;
static_assert(kHeaderBytes >= sizeof(std::size_t));

void count(void* pointer, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  total_bytes += size;
  raise_cpu_peak(current_bytes += size);
  for (const auto& sink : allocation_sinks) {
    if (const auto alive = sink.lock()) alive->allocated(pointer, bytes);
  }
}

// Allocates from the allocator it found. DataPtr's get() == get_context(), as code that takes
// raw pointers from an allocator requires.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &CountingAllocator::free, c10::kCPU};
    auto* block = static_cast<char*>(base_->raw_allocate(bytes + kHeaderBytes));
    std::memcpy(block, &bytes, sizeof(bytes));
    void* pointer = block + kHeaderBytes;
    count(pointer, bytes);
    return {pointer, pointer, &CountingAllocator::free, c10::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free(void* pointer);
  c10::Allocator* base_;
};

CountingAllocator* installed = nullptr;

void CountingAllocator::free(void* pointer) {
  if (pointer == nullptr) return;
  auto* block = static_cast<char*>(pointer) - kHeaderBytes;
  std::size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  current_bytes -= static_cast<std::int64_t>(bytes);
  for (const auto& sink : allocation_sinks) {
    if (const auto alive = sink.lock()) alive->freed(pointer, bytes);
  }
  installed->base_->raw_deallocate(block);
}

}  // namespace

void install_cpu_counter() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never deleted: blocks may be freed after the program's statics are gone.
    installed = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(installed);
  });
}

MemoryCounter cpu_counter() noexcept { return {current_bytes, peak_bytes, total_bytes}; }

std::int64_t exchange_cpu_peak() noexcept { return peak_bytes.exchange(current_bytes); }

void raise_cpu_peak(std::int64_t bytes) noexcept {
  auto peak = peak_bytes.load();
  while (bytes > peak && !peak_bytes.compare_exchange_weak(peak, bytes)) {
  }
}

void add_allocation_sink(std::weak_ptr<AllocationSink> sink) {
  std::erase_if(allocation_sinks, [](const auto& other) { return other.expired(); });
  allocation_sinks.push_back(std::move(sink));
}

}  // namespace gradrecomp::profile
