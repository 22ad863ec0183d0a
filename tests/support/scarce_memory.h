#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <functional>

namespace gradrecomp::test {

/// While it lives, the host has no memory for the allocations that `refuses` names by their bytes.
class ScarceMemory {
 public:
  explicit ScarceMemory(std::function<bool(std::size_t)> refuses) {
    Allocator& allocator = installed();
    allocator.refuses = std::move(refuses);
    allocator.is_scarce = true;
  }
  ~ScarceMemory() { installed().is_scarce = false; }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

 private:
  class Allocator final : public c10::Allocator {
   public:
    explicit Allocator(c10::Allocator* actual) : actual_(actual) {}
    c10::DataPtr allocate(std::size_t bytes) override {
      TORCH_CHECK_WITH(OutOfMemoryError, !is_scarce || !refuses(bytes), "out of memory");
      return actual_->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return actual_->raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
      actual_->copy_data(to, from, bytes);
    }

    std::atomic<bool> is_scarce = false;
    std::function<bool(std::size_t)> refuses;

   private:
    c10::Allocator* actual_;
  };

  // What it has allocated may outlive the test.
  static Allocator& installed() {
    static auto* allocator = [] {
      auto* made = new Allocator(c10::GetCPUAllocator());
      c10::SetCPUAllocator(made);
      return made;
    }();
    return *allocator;
  }
};

}  // namespace gradrecomp::test
