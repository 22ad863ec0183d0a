#include "tape/dispatch/plain_memory.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "tape/aten/intercepted_key.h"

namespace gradrecomp::tape {
namespace {

using c10::BackendComponent;
using c10::DispatchKey;
using c10::DispatchKeySet;

// A list of what is known to be plain: a kind added by a later LibTorch does not count until it has
// been reviewed.
constexpr DispatchKeySet kPlain = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                  c10::autocast_dispatch_keyset |
                                  DispatchKeySet({DispatchKey::Dense, DispatchKey::BackendSelect,
                                                  DispatchKey::Conjugate, DispatchKey::Negative}) |
                                  DispatchKeySet(DispatchKeySet::RAW, c10::full_backend_mask);

// On bits, as DispatchKeySet's own difference leaves backends in.
bool is_subset(DispatchKeySet keys, DispatchKeySet of) {
  return (keys.raw_repr() & ~of.raw_repr()) == 0;
}

bool has_memory(const at::TensorBase& tensor) {
  if (!tensor.has_storage()) return false;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  return storage != nullptr && (storage->nbytes() == 0 || storage->data() != nullptr);
}

}  // namespace

bool is_plain(const at::TensorBase& tensor) {
  const DispatchKeySet keys = tensor.key_set();
  return is_subset(keys, kPlain) && keys.highestBackendKey() != BackendComponent::MetaBit &&
         has_memory(tensor);
}

void for_each_part(const at::Tensor& tensor, c10::function_ref<void(const at::Tensor&)> visit) {
  const auto visit_if_plain = [&](const at::Tensor& part) {
    if (part.defined() && is_plain(part)) visit(part);
  };
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (const auto* coordinates = dynamic_cast<const at::SparseTensorImpl*>(impl)) {
    visit_if_plain(coordinates->indices());
    visit_if_plain(coordinates->values());
  } else if (const auto* compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(impl)) {
    visit_if_plain(compressed->compressed_indices());
    visit_if_plain(compressed->plain_indices());
    visit_if_plain(compressed->values());
  } else {
    visit_if_plain(tensor);
  }
}

bool holds_plain_tensors(const c10::IValue& value) {
  if (value.isTensor()) return !value.toTensor().defined() || is_plain(value.toTensor());
  if (value.isTensorList()) {
    const auto tensors = value.toTensorList();
    return std::ranges::all_of(
        tensors, [](const at::Tensor& tensor) { return !tensor.defined() || is_plain(tensor); });
  }
  const bool has_items = value.isTuple() || (value.isList() && !value.isIntList() &&
                                             !value.isDoubleList() && !value.isBoolList());
  if (!has_items) return true;
  if (value.isTuple())
    return std::ranges::all_of(value.toTupleRef().elements(), holds_plain_tensors);
  return std::ranges::all_of(value.toListRef(), holds_plain_tensors);
}

bool dispatches_plainly() {
  constexpr DispatchKeySet kOurs{kInterceptedKey};
  return is_subset(c10::impl::tls_local_dispatch_key_set().included_, kPlain | kOurs);
}

}  // namespace gradrecomp::tape
