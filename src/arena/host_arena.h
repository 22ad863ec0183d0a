#pragma once

#include <atomic>
#include <cstddef>

#include "arena/blocks/arena.h"
#include "arena/planned/step_placer.h"

namespace gradrecomp::arena {

/// Host memory for large blocks: resident memory then follows what is alive, with no page faults
/// for what was resident before. The C library serves small blocks as well, at less cost.
///
/// Threads: safe to use from any, and in children of a fork.
class HostArena {
 public:
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

  /// The one of the process, never destroyed.
  static HostArena& of_process();

  /// Null for small blocks and where there is no room. The caller then looks elsewhere.
  void* allocate(std::size_t bytes);
  /// Whether `block` is one of these.
  [[nodiscard]] bool owns(const void* block) const;
  void free(void* block);
  /// The bytes of all blocks, their rounding included.
  [[nodiscard]] std::size_t bytes_in_use() const;
  /// Gives what is free back to the system.
  void give_back_free();
  [[nodiscard]] StepPlacer& placer() { return placer_; }
  /// For tests: which blocks are large.
  void set_least_bytes(std::size_t bytes) { least_bytes_ = bytes; }

 private:
  HostArena();
  static void before_fork();
  static void after_fork();

  std::atomic<std::size_t> least_bytes_ = kLeastBytes;
  Arena arena_;
  StepPlacer placer_;
};

}  // namespace gradrecomp::arena
