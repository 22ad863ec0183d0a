#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Host memory for copies of values of the CPU, beside the CPU's tensor allocator, so that they do
/// not count as activations. Devices proper have pinned memory, which LibTorch pools.
///
/// Threads: safe to use from any.
class HostPool {
 public:
  /// The one pool of the process, never destroyed.
  static HostPool& of_process();

  /// `size` bytes, aligned for any type. Memory given back is used again for the same size.
  c10::DataPtr allocate(std::size_t size);
  /// Frees what is not in use.
  void trim();
  /// Blocks ever taken from the system and not freed.
  [[nodiscard]] std::size_t num_blocks() const;

 private:
  static void give_back(void* block);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::size_t num_blocks_ = 0;
};

}  // namespace gradrecomp::tape
