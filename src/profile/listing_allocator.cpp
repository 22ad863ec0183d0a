#include "profile/listing_allocator.h"

#include <pthread.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "profile/counting_allocator.h"

namespace gradrecomp::profile {
namespace {

struct Block {
  c10::DataPtr data;  // the program's
  std::size_t bytes = 0;
};

/// By where blocks begin.
class Blocks {
 public:
  void add(void* pointer, Block block) {
    const std::lock_guard lock(mutex_);
    Block& listed = blocks_[pointer];
    // One that was given back without the list: its memory is that of the new one.
    static_cast<void>(listed.data.release_context());
    listed = std::move(block);
  }

  /// Empty if none begins there.
  Block take(void* pointer) {
    const std::lock_guard lock(mutex_);
    auto node = blocks_.extract(pointer);
    return node.empty() ? Block{} : std::move(node.mapped());
  }

  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
};

// Never deleted: blocks may be freed after the program's statics are gone.
Blocks& blocks() {
  static auto* all = [] {
    auto* made = new Blocks;
    // A child that is forked while another thread allocates has a list that is whole.
    pthread_atfork([] { blocks().mutex().lock(); }, [] { blocks().mutex().unlock(); },
                   [] { blocks().mutex().unlock(); });
    return made;
  }();
  return *all;
}

c10::Allocator* program_allocator = nullptr;

void free_listed(void* pointer) {
  if (pointer == nullptr) return;
  const Block block = blocks().take(pointer);
  if (!block.data) return program_allocator->raw_deallocate(pointer);  // from before it was listed
  count_freed(pointer, block.bytes);
}

}  // namespace

ListingAllocator::ListingAllocator(c10::Allocator* base) : base_(base) { program_allocator = base; }

c10::DataPtr ListingAllocator::allocate(std::size_t bytes) {
  c10::DataPtr data = base_->allocate(bytes);
  void* const pointer = data.get();
  if (pointer == nullptr || bytes == 0) return data;
  const c10::Device device = data.device();
  blocks().add(pointer, {std::move(data), bytes});
  c10::DataPtr listed{pointer, pointer, &free_listed, device};
  count_allocated(pointer, bytes);
  return listed;
}

c10::DeleterFnPtr ListingAllocator::raw_deleter() const { return &free_listed; }

void ListingAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  base_->copy_data(to, from, bytes);
}

}  // namespace gradrecomp::profile
