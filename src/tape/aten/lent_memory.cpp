#include "tape/aten/lent_memory.h"

#include <ATen/MapAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/COW.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <set>

namespace gradrecomp::tape {
namespace {

constexpr int kSignalSetBytes = 8;

std::atomic<const c10::Allocator*> former_allocator{nullptr};

bool frees_by(const c10::Allocator* allocator, c10::DeleterFnPtr deleter) {
  return allocator != nullptr && deleter != nullptr && allocator->raw_deleter() == deleter;
}

// A storage may name an allocator that did not make its memory, or, as what torch::load() makes,
// none. How its memory is freed tells who made it, maybe before a region counted what is allocated.
bool is_freed_by_an_allocator(const c10::StorageImpl& storage) {
  const auto deleter = storage.data_ptr().get_deleter();
  return frees_by(c10::GetAllocator(storage.device_type()), deleter) ||
         frees_by(storage.allocator(), deleter) || frees_by(former_allocator, deleter);
}

// Asks the system for what it refuses, after it has read a set of signals from there: no file is
// needed, which the program could close, and nothing is changed.
bool is_page_readable(std::uintptr_t address) {
  constexpr int kNoSuchRequest = -1;
  const int error = errno;
  const long done = syscall(SYS_rt_sigprocmask, kNoSuchRequest, address, nullptr, kSignalSetBytes);
  const bool is_there = done == 0 || errno != EFAULT;
  errno = error;
  return is_there;
}

}  // namespace

void know_former_allocator(const c10::Allocator* allocator) noexcept {
  former_allocator = allocator;
}

bool has_deleter(const c10::StorageImpl& storage) {
  return storage.data_ptr().get_deleter() != &c10::detail::deleteNothing;
}

bool is_lent(const c10::StorageImpl& storage) {
  if (storage.nbytes() == 0 || is_freed_by_an_allocator(storage)) return false;
  // Copy-on-write clones share memory until one is written, which none sees of another.
  if (c10::impl::cow::is_cow_data_ptr(storage.data_ptr()) || is_mapped(storage)) return false;
  if (storage.allocator() == nullptr) return true;
  // Some allocators do not free by the means that they report, or report none: those of pinned
  // memory and of devices.
  if (storage.allocator()->raw_deleter() == nullptr) return !has_deleter(storage);
  return storage.device().is_cpu() || !storage.resizable();
}

bool is_readable(const void* begin, std::int64_t num_bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const auto end = first + static_cast<std::uintptr_t>(num_bytes);
  for (std::uintptr_t page = first - first % page_bytes; page < end; page += page_bytes) {
    if (!is_page_readable(page)) return false;
  }
  return true;
}

bool is_mapped(const c10::StorageImpl& storage) {
  const c10::DataPtr& memory = storage.data_ptr();
  return at::MapAllocator::fromDataPtr(memory) != nullptr ||
         at::RefcountedMapAllocator::fromDataPtr(memory) != nullptr;
}

bool is_lent_or_mapped(const c10::StorageImpl& storage) {
  return !is_freed_by_an_allocator(storage) && (is_lent(storage) || is_mapped(storage));
}

std::size_t num_owners_in(c10::ArrayRef<c10::IValue> returned, const c10::StorageImpl& storage) {
  std::set<const c10::TensorImpl*> owners;
  struct Base {
    std::size_t num_views = 0;  // among what was returned
    std::size_t num_holders = 0;
  };
  std::map<const c10::TensorImpl*, Base> bases;
  const auto look_at = [&](const at::TensorBase& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (tensor.storage().unsafeGetStorageImpl() != &storage) return;
    const bool is_new = owners.insert(tensor.unsafeGetTensorImpl()).second;
    if (!is_new || !tensor.is_view()) return;
    Base& base = bases[tensor._base().unsafeGetTensorImpl()];
    ++base.num_views;
    base.num_holders = tensor._base().use_count();
  };
  for (const c10::IValue& value : returned) {
    if (value.isTensor()) look_at(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorList()) look_at(tensor);
  }
  for (const auto& [impl, base] : bases) {
    if (base.num_holders <= base.num_views) owners.insert(impl);
  }
  return owners.size();
}

bool is_held_elsewhere(const at::Tensor& tensor, c10::ArrayRef<c10::IValue> returned,
                       std::size_t num_own) {
  const c10::Storage& storage = tensor.storage();
  const std::size_t num_owners = num_owners_in(returned, *storage.unsafeGetStorageImpl());
  return static_cast<std::size_t>(tensor.use_count()) > num_own + 1 ||
         static_cast<std::size_t>(storage.use_count()) > num_own + num_owners;
}

}  // namespace gradrecomp::tape
