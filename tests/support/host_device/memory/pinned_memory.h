#pragma once

#include <c10/core/Allocator.h>

#include <map>
#include <vector>

#include "streams/queue.h"

namespace gradrecomp::test::host_device {

/// Host memory that an asynchronous device reads and writes by itself. A block that is freed stays
/// until the copies are done that use it, as with CUDA's allocator.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &PinnedMemory::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// There is no more to be had from now on, or again.
  void refuse(bool refuses) { refuses_ = refuses; }

  [[nodiscard]] bool contains(const void* pointer) const;
  /// What `queue` has been given until now uses the block that `pointer` is in.
  void note_use(const void* pointer, Queue& queue);

 private:
  struct Block {
    std::size_t size = 0;
    std::vector<Place> uses = {};
  };

  static void free(void* pointer);
  void free_what_is_done();

  bool refuses_ = false;
  std::map<const void*, Block> live_;
  std::map<void*, Block> freed_in_use_;
};

PinnedMemory& pinned_memory();

}  // namespace gradrecomp::test::host_device
