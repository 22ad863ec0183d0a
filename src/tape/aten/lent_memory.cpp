#include "tape/aten/lent_memory.h"

#include <ATen/MapAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/COW.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <set>

namespace gradrecomp::tape {
namespace {

constexpr int kMostProbes = 512;

bool frees_by(const c10::Allocator* allocator, c10::DeleterFnPtr deleter) {
  return allocator != nullptr && deleter != nullptr && allocator->raw_deleter() == deleter;
}

// A storage may name an allocator that did not make its memory, or, as what torch::load() makes,
// none. How its memory is freed tells who made it.
bool is_freed_by_an_allocator(const c10::StorageImpl& storage) {
  const auto deleter = storage.data_ptr().get_deleter();
  return frees_by(c10::GetAllocator(storage.device_type()), deleter) ||
         frees_by(storage.allocator(), deleter);
}

}  // namespace

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

// The system reads one byte of each page into a file, and says so where it cannot.
bool is_readable(const void* begin, std::int64_t num_bytes) {
  static const int sink = memfd_create("gradrecomp", MFD_CLOEXEC);
  if (sink < 0) return true;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto beyond_page =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin)) % page;
  auto* const bytes = static_cast<char*>(const_cast<void*>(begin));
  for (std::int64_t next = 0; next < num_bytes;) {
    std::array<iovec, kMostProbes> probes;
    int count = 0;
    for (; next < num_bytes && count < kMostProbes; next += page - (beyond_page + next) % page) {
      probes[static_cast<std::size_t>(count++)] = {bytes + next, 1};
    }
    const ssize_t num_read = pwritev(sink, probes.data(), count, 0);
    if (num_read >= 0 ? num_read < count : errno == EFAULT) return false;
  }
  return true;
}

bool is_mapped(const c10::StorageImpl& storage) {
  const c10::DataPtr& memory = storage.data_ptr();
  return at::MapAllocator::fromDataPtr(memory) != nullptr ||
         at::RefcountedMapAllocator::fromDataPtr(memory) != nullptr;
}

std::size_t num_owners_in(c10::ArrayRef<c10::IValue> returned, const c10::StorageImpl& storage) {
  std::set<const c10::TensorImpl*> owners;
  const auto look_at = [&](const at::TensorBase& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (tensor.storage().unsafeGetStorageImpl() != &storage) return;
    owners.insert(tensor.unsafeGetTensorImpl());
    if (tensor.is_view()) owners.insert(tensor._base().unsafeGetTensorImpl());
  };
  for (const c10::IValue& value : returned) {
    if (value.isTensor()) look_at(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorList()) look_at(tensor);
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
