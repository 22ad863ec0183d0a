// Conformance E21: operators and functions that a recorder may stumble over.
#include <torch/script.h>

#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    const auto square = x * x;
    context->save_for_backward({x, square});
    return square * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 3 * context->get_saved_variables()[1]};
  }
};

TEST(Exactness, E21UsersOwnAutogradFunction) {
  expect_exact([] {
    return function([](const Tensors& x) { return Tensors{Cube::apply(x[0].sin()).tanh()}; },
                    {3, 3});
  });
}

// Compiled anew for each training, as TorchScript changes how it runs a module after a few calls.
Program scripted() {
  auto script = std::make_shared<torch::jit::Module>("script");
  script->define(R"(
    def forward(self, x, steps: int):
        parts = []
        for i in range(steps):
            x = torch.tanh(x * (i + 1)).exp()
            parts.append(x)
        return torch.stack(parts).sin()
  )");
  return function(
      [script](const Tensors& inputs) {
        return Tensors{script->forward({inputs[0], 3}).toTensor().cos()};
      },
      {3, 4});
}

TEST(Exactness, E21TorchScriptModule) { expect_exact(scripted); }

TEST(Exactness, E21ListsAndUndefinedTensors) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          const auto& x = inputs[0];
          const auto parts = x.exp().chunk(3, 1);
          const auto both =
              torch::meshgrid({parts[0].flatten().sin(), parts[2].flatten().cos()}, "ij");
          const auto norm = torch::layer_norm(x.sigmoid(), {6}, {}, {});
          const auto rows = torch::unbind(parts[1].tanh());
          return Tensors{both[0] * both[1], norm, at::Tensor(), torch::stack(rows, 1).sin(),
                         std::get<0>(rows[0].max(0))};
        },
        {4, 6});
  });
}

TEST(Exactness, E21IndexingScatteringAndSorting) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto table = module->register_module("table", nn::Embedding(10, 6));
    const auto forward = [table](const Tensors& inputs) mutable {
      const auto words = table->forward(torch::tensor({1, 3, 3, 9}));
      const auto mixed = torch::cat({inputs[0].tanh(), words}, 0).exp().unbind(0);
      const auto stacked = torch::stack(mixed, 1).sin();
      const auto top = std::get<0>(stacked.topk(3, 0));
      const auto sorted = std::get<0>(stacked.sort(1)).tanh();
      const auto put = torch::zeros({6, 8}).index_put({torch::tensor({0, 2})}, stacked[0]);
      const auto scattered = torch::zeros({6, 8}).scatter_add(0, torch::zeros({2, 8}, torch::kLong),
                                                              stacked.slice(0, 0, 2).cos());
      const auto picked = stacked.index({torch::tensor({0, 0, 5}), torch::tensor({1, 2, 3})});
      return Tensors{top, sorted, put.exp(), scattered, picked.exp()};
    };
    return program(module, forward, {4, 6});
  });
}

// A boxed call returns them as references into a stack that is gone.
TEST(Exactness, E21OutVariantsOfSeveralOutputs) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          const auto& x = inputs[0];
          auto values = torch::empty({0});
          auto order = torch::empty({0}, torch::kLong);
          auto least = torch::empty({0});
          auto most = torch::empty({0});
          {
            const torch::NoGradGuard no_grad;
            torch::sort_out(values, order, x.detach() * 2, 1);
            torch::aminmax_out(least, most, values, 0, true);
          }
          const auto sorted = x.gather(1, order) * values;
          return Tensors{(sorted * (most - least)).exp()};
        },
        {4, 6});
  });
}

TEST(Exactness, E21AttentionCausalMaskedAndWithDropout) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          const auto x = inputs[0].tanh();
          const auto mask = torch::ones({5, 5}, torch::kBool).tril();
          auto causal = at::scaled_dot_product_attention(x, x, x, {}, 0.0, true);
          auto masked = at::scaled_dot_product_attention(x, x, x, mask);
          auto dropped = at::scaled_dot_product_attention(x, x, x, {}, 0.4);
          return Tensors{causal.exp(), masked.exp(), dropped.exp()};
        },
        {2, 3, 5, 8});
  });
}

}  // namespace
}  // namespace gradrecomp::test
