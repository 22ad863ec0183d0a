#include "tape/aten/lent_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/COW.h>

namespace gradrecomp::tape {
namespace {

// A storage may name an allocator that did not make its memory.
bool is_freed_by_its_allocator(const c10::StorageImpl& storage) {
  const auto deleter = storage.allocator()->raw_deleter();
  return deleter == nullptr || storage.data_ptr().get_deleter() == deleter;
}

}  // namespace

bool is_lent(const c10::StorageImpl& storage) {
  if (storage.nbytes() == 0) return false;
  if (storage.allocator() == nullptr || !storage.resizable()) return true;
  // Copy-on-write clones share memory until one is written, which none sees of another.
  if (!storage.device().is_cpu() || c10::impl::cow::is_cow_data_ptr(storage.data_ptr())) {
    return false;
  }
  return !is_freed_by_its_allocator(storage);
}

}  // namespace gradrecomp::tape
