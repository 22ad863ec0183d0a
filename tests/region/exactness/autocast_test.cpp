// Conformance E9: a replay casts as the forward pass did, whatever autocast does in backward.
#include <ATen/autocast_mode.h>

#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

// Mixed precision on the CPU for a scope, as torch.autocast does it.
class Autocast {
 public:
  explicit Autocast(at::ScalarType type, bool cache_weights) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, type);
    at::autocast::set_autocast_cache_enabled(cache_weights);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_cache_enabled(true);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

struct Casting {
  at::ScalarType type = at::kBFloat16;
  bool cache_weights = true;
  bool backward_inside = true;
};

// Two regions of one layer, so that the second finds the weight cast by the first.
Tensors mixed_step(const Wrap& wrap, const Casting& casting) {
  nn::Linear layer(6, 6);
  const auto x = torch::randn({4, 6}).requires_grad_();
  auto scope = std::make_unique<Autocast>(casting.type, casting.cache_weights);
  auto y = one(wrap)([&] { return torch::tanh(layer(x)); });
  EXPECT_EQ(y.scalar_type(), casting.type);
  y = one(wrap)([&] { return torch::gelu(layer(y)).mm(y.t()).to(torch::kFloat); });
  if (!casting.backward_inside) scope.reset();
  y.sum().backward();
  return {y, x.grad(), layer->weight.grad(), layer->bias.grad()};
}

TEST(Exactness, E9AutocastWithWeightsSharedByTwoRegions) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const bool cache_weights : {true, false}) {
      for (const bool backward_inside : {true, false}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + (cache_weights ? ", cache" : "") +
                     (backward_inside ? ", backward inside" : ""));
        expect_same_step([&](const Wrap& wrap) {
          return mixed_step(wrap, {type, cache_weights, backward_inside});
        });
      }
    }
  }
}

// The kernel of roll calls cat, which autocast promotes.
TEST(Exactness, E9KernelThatAutocastCastsForIsReplayedBehindItsScope) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4, 6}).requires_grad_();
    auto scope = std::make_unique<Autocast>(at::kHalf, true);
    const auto y = one(wrap)([&] { return x.mm(x.t()).roll(1, 1).sin(); });
    scope.reset();
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    y.sum().backward();
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
    return Tensors{y, x.grad()};
  });
}

TEST(Exactness, E9AutocastThatBeginsAndEndsInsideTheRegion) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto first = module->register_module("first", nn::Linear(6, 8));
    auto second = module->register_module("second", nn::Linear(8, 4));
    const auto forward = [first, second](const Tensors& inputs) mutable {
      at::Tensor x;
      {
        const Autocast scope(at::kBFloat16, true);
        x = torch::tanh(first->forward(inputs[0]));
      }
      return Tensors{second->forward(x.to(torch::kFloat)).sigmoid()};
    };
    return program(module, forward, {5, 6});
  });
}

}  // namespace
}  // namespace gradrecomp::test
