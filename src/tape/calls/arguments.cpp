#include "tape/calls/arguments.h"

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "tape/dispatch/lists.h"

namespace gradrecomp::tape {

void for_each_tensor(const c10::IValue& argument, VisitTensor visit) {
  if (argument.isTensor()) {
    if (argument.toTensor().defined()) visit(argument.toTensor(), -1);
  } else if (argument.isTensorList()) {
    std::int32_t element = 0;
    for (const at::Tensor& tensor : argument.toTensorList()) {
      if (tensor.defined()) visit(tensor, element);
      ++element;
    }
  } else if (argument.isList() && !argument.isIntList()) {
    std::int32_t element = 0;
    for (const c10::IValue& item : argument.toListRef()) {
      for_each_tensor(item,
                      [&](const at::Tensor& tensor, std::int32_t) { visit(tensor, element); });
      ++element;
    }
  } else if (argument.isTuple()) {
    for (const c10::IValue& item : argument.toTupleRef().elements()) {
      for_each_tensor(item, [&](const at::Tensor& tensor, std::int32_t) { visit(tensor, -1); });
    }
  }
}

bool is_opaque(const c10::IValue& argument) {
  if (argument.isTuple()) {
    const auto may_change = [](const c10::IValue& item) {
      return item.isList() || is_opaque(item);
    };
    return std::ranges::any_of(argument.toTupleRef().elements(), may_change);
  }
  if (argument.isList() && !is_flat_list(argument)) {
    return std::ranges::any_of(argument.toListRef(), is_opaque);
  }
  return argument.isObject() || argument.isCapsule() || argument.isPyObject() ||
         argument.isFuture() || argument.isRRef() || argument.isBlob() ||
         argument.isGenericDict() || argument.isStorage();
}

bool grows(const torch::jit::Stack& stack, std::size_t count) {
  const c10::IValue& self = stack[stack.size() - count];
  const c10::IValue& to = stack[stack.size() - count + 1];
  if (!self.isTensor() || !self.toTensor().has_storage()) return false;
  const at::Tensor& tensor = self.toTensor();
  const std::int64_t numel =
      to.isTensor() ? to.toTensor().numel() : c10::multiply_integers(to.toIntVector());
  const auto bytes = (tensor.storage_offset() + numel) * tensor.element_size();
  return bytes > static_cast<std::int64_t>(tensor.storage().nbytes());
}

bool keeps_sizes(const torch::jit::Stack& stack, std::size_t count) {
  const c10::IValue& self = stack[stack.size() - count];
  const c10::IValue& to = stack[stack.size() - count + 1];
  if (!self.isTensor()) return false;
  return self.toTensor().sizes() ==
         (to.isTensor() ? to.toTensor().sizes().vec() : to.toIntVector());
}

}  // namespace gradrecomp::tape
