#include "tape/lent/aliases.h"

#include <algorithm>

#include "tape/aten/lent_memory.h"

namespace gradrecomp::tape {

LentAliases::Found LentAliases::of(const at::Tensor& written) {
  if (!written.has_storage() || written.storage().nbytes() == 0) return {};
  Found found;
  const c10::StorageImpl& memory = *written.storage().unsafeGetStorageImpl();
  if (is_lent(memory)) {
    find_new(memory, found);
  } else {
    find_lent(memory, found);
  }
  return found;
}

/// Values that have not been compared with that memory before.
void LentAliases::find_new(const c10::StorageImpl& lent, Found& found) {
  const auto* begin = static_cast<const char*>(lent.data());
  ValueId& id = num_compared_[Range(begin, begin + lent.nbytes())];
  for (; id < static_cast<ValueId>(tape_.values().size()); ++id) add_if_alias(id, lent, found);
}

/// Values in lent memory, of which most programs have none.
void LentAliases::find_lent(const c10::StorageImpl& memory, Found& found) {
  for (; num_known_ < static_cast<ValueId>(tape_.values().size()); ++num_known_) {
    if (tape_.values()[num_known_].lent) lent_.push_back(num_known_);
  }
  std::erase_if(lent_, [&](ValueId id) { return tape_.values()[id].overwritten_by >= 0; });
  for (const ValueId id : lent_) add_if_alias(id, memory, found);
}

void LentAliases::add_if_alias(ValueId id, const c10::StorageImpl& memory, Found& found) const {
  const Value& value = tape_.values()[id];
  auto storage = value.overwritten_by < 0 ? value.owner.lock() : nullptr;
  if (!storage || storage.get() == &memory) return;
  const auto* begin = static_cast<const char*>(memory.data());
  const auto* other = static_cast<const char*>(storage->data());
  const bool overlaps = begin < other + storage->nbytes() && other < begin + memory.nbytes();
  if (overlaps) found.emplace_back(id, c10::Storage(std::move(storage)));
}

}  // namespace gradrecomp::tape
