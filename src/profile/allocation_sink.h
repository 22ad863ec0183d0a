#pragma once

#include <cstddef>
#include <memory>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Sees every allocation and release that one thread makes through the CPU tensor allocator.
class AllocationSink {
 public:
  virtual ~AllocationSink() = default;
  virtual void allocated(const void* pointer, std::size_t bytes) = 0;
  virtual void freed(const void* pointer, std::size_t bytes) = 0;
};

/// Sends this thread's allocations to `sink` too, for as long as it lives. A no-op where they go
/// there already, and as the thread ends.
void add_allocation_sink(std::weak_ptr<AllocationSink> sink);

}  // namespace gradrecomp::profile
