#pragma once

#include <torch/library.h>
#include <torch/torch.h>

#include <string>

namespace gradrecomp::test {

/// Calls the operator gradrecomp_test::`name` below autograd, to which it is the identity.
struct OwnOperator : torch::autograd::Function<OwnOperator> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x,
                            const std::string& name) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow(("gradrecomp_test::" + name).c_str(), "")
        .typed<at::Tensor(const at::Tensor&)>()
        .call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

/// Calls gradrecomp_test::`name` by a stack, as TorchScript's interpreter does. Returns its first
/// result.
inline at::Tensor call_boxed(const char* name, torch::jit::Stack stack) {
  const std::string full_name = std::string("gradrecomp_test::") + name;
  c10::Dispatcher::singleton().findSchemaOrThrow(full_name.c_str(), "").callBoxed(stack);
  return stack.front().toTensor();
}

}  // namespace gradrecomp::test
