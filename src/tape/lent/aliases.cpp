#include "tape/lent/aliases.h"

#include "tape/aten/lent_memory.h"

namespace gradrecomp::tape {

std::vector<std::pair<ValueId, c10::Storage>> LentAliases::of(const at::Tensor& written) {
  if (!written.has_storage() || written.storage().nbytes() == 0) return {};
  const auto& lent = *written.storage().unsafeGetStorageImpl();
  if (!is_lent(lent)) return {};
  const auto* begin = static_cast<const char*>(lent.data());
  const Range range(begin, begin + lent.nbytes());
  std::vector<std::pair<ValueId, c10::Storage>> found;
  ValueId& id = num_compared_[range];
  for (; id < static_cast<ValueId>(tape_.values().size()); ++id) {
    const Value& value = tape_.values()[id];
    auto storage = value.overwritten_by < 0 ? value.owner.lock() : nullptr;
    if (!storage || storage.get() == &lent) continue;
    const auto* other = static_cast<const char*>(storage->data());
    const bool overlaps = range.first < other + storage->nbytes() && other < range.second;
    if (overlaps) found.emplace_back(id, c10::Storage(std::move(storage)));
  }
  return found;
}

}  // namespace gradrecomp::tape
