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

}  // namespace gradrecomp::test
