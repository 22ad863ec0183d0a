#include "fuzz/world/fresh_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>

#include "fuzz/world/device.h"
#include "gradrecomp/memory_meter.h"

namespace gradrecomp::fuzzing {
namespace {

std::atomic<std::uint8_t> fill = 0;

class FillingAllocator final : public c10::Allocator {
 public:
  explicit FillingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto data = base_->allocate(bytes);
    if (bytes > 0) std::memset(data.get(), fill, bytes);
    return data;
  }

  c10::DeleterFnPtr raw_deleter() const override { return base_->raw_deleter(); }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* base_;
};

}  // namespace

void fill_fresh_memory(std::uint8_t byte) {
  // Never deleted: blocks may be freed after the program's statics are gone.
  static auto* installed = [] {
    install_cpu_counter();
    auto* allocator = new FillingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(allocator);
    return allocator;
  }();
  (void)installed;
  fill = byte;
  fill_fresh_device_memory(byte);
}

}  // namespace gradrecomp::fuzzing
