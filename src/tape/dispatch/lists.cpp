#include "tape/dispatch/lists.h"

#include <ATen/core/List.h>

#include <cstddef>

namespace gradrecomp::tape {

bool is_flat_list(const c10::IValue& argument) {
  return argument.isIntList() || argument.isDoubleList() || argument.isBoolList() ||
         argument.isTensorList();
}

c10::IValue with_own_lists(const c10::IValue& argument) {
  if (!argument.isList()) return argument;
  c10::impl::GenericList list = argument.toList().copy();
  if (is_flat_list(argument)) return list;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const c10::IValue item = list.get(i);
    if (item.isList()) list.set(i, with_own_lists(item));
  }
  return list;
}

}  // namespace gradrecomp::tape
