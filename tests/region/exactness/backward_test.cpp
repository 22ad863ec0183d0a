// Conformance E10 to E15, E23: all the ways to run backward.
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "gradrecomp/checkpoint.h"
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

TEST(Exactness, E10SecondAndThirdDerivative) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({7}, torch::kDouble).requires_grad_();
    Tensors derivatives;
    auto y = one(wrap)([&] { return (x.sin().exp() * x).tanh(); });
    for (int order = 1; order <= 3; ++order) {
      y = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
      derivatives.push_back(y.detach());
    }
    return derivatives;
  });
}

// What comes from outside and from inside is added up in one order, by which sums are rounded.
TEST(Exactness, E10SecondDerivativeOfAnOutputThatIsUsedTwice) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({64, 8});
    const auto scale = torch::rand({8}).requires_grad_();
    const auto y = one(wrap)([&] { return torch::sigmoid((x * scale).sin()); });
    auto loss = (y * torch::rand({64, 8})).sum() + (y * torch::rand({64, 8})).sum();
    const auto slope = torch::autograd::grad({loss}, {scale}, {}, true, true)[0];
    (loss + slope.tanh().sum()).backward();
    return Tensors{scale.grad()};
  });
}

TEST(Exactness, E10GradientPenalty) {
  expect_same_step([](const Wrap& wrap) {
    nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 1));
    const auto x = torch::randn({3, 4}).requires_grad_();
    const auto y = one(wrap)([&] { return model->forward(x).exp(); });
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    (y.mean() + (slope.norm() - 1).pow(2)).backward();
    Tensors gradients;
    for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad());
    return gradients;
  });
}

TEST(Exactness, E10RegionsNestedInRegions) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          Region inside({.policy = "drop_all"});
          const auto x = inside.run([&] { return inputs[0].exp().tanh(); });
          return Tensors{checkpoint([](at::Tensor y) { return y.sigmoid() * y; }, x)};
        },
        {5, 5});
  });
}

TEST(Exactness, E11GradOfASubsetAccumulatesNothingElse) {
  expect_same_step([](const Wrap& wrap) {
    nn::Linear first(4, 4);
    nn::Linear second(4, 4);
    const auto x = torch::randn({3, 4});
    const auto forward = [&] { return second(first(x).tanh()).tanh().sum(); };
    Tensors all = torch::autograd::grad({one(wrap)(forward)}, {first->weight});
    EXPECT_FALSE(second->weight.grad().defined());
    one(wrap)(forward).backward({}, std::nullopt, false, at::TensorList({first->bias}));
    EXPECT_FALSE(first->weight.grad().defined());
    all.push_back(first->bias.grad());
    return all;
  });
}

TEST(Exactness, E12RetainGraphAllowsASecondBackward) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4, 4}).requires_grad_();
    const auto loss = one(wrap)([&] { return (x.exp().tanh() * x.sin()).sum(); });
    Tensors gradients;
    loss.backward({}, true);
    gradients.push_back(x.grad().clone());
    loss.backward();
    gradients.push_back(x.grad());
    return gradients;
  });
}

TEST(Exactness, E12SecondBackwardWithoutRetainGraphIsAutogradsError) {
  const auto x = torch::randn({4}).requires_grad_();
  const auto loss = detail::run_dropped([&] { return x.exp().tanh().sum(); });
  loss.backward();
  try {
    loss.backward();
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("backward through the graph a second time"),
              std::string::npos);
  }
}

TEST(Exactness, E13AccumulationOverMicroBatches) {
  expect_same_step([](const Wrap& wrap) {
    nn::Sequential model(nn::Linear(6, 6), nn::GELU(), nn::Linear(6, 3), nn::Tanh());
    for (int i = 0; i < 4; ++i) {
      const auto x = torch::randn({2, 6});
      one(wrap)([&] { return model->forward(x); }).sum().backward();
    }
    Tensors gradients;
    for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad());
    return gradients;
  });
}

// All forward passes first, so that four tapes live at once.
TEST(Exactness, E13AccumulationWithBackwardInReverseOrder) {
  expect_same_step([](const Wrap& wrap) {
    nn::Sequential model(nn::Linear(6, 6), nn::Dropout(0.5), nn::Linear(6, 3), nn::Tanh());
    Tensors losses;
    for (int i = 0; i < 4; ++i) {
      const auto x = torch::randn({2, 6});
      losses.push_back(one(wrap)([&] { return model->forward(x); }).sum());
    }
    while (!losses.empty()) {
      losses.back().backward();
      losses.pop_back();
    }
    return Tensors{model->parameters()[0].grad(), model->parameters()[2].grad()};
  });
}

TEST(Exactness, E14TwoLossesOverDisjointParts) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({5}).requires_grad_();
    const auto y = torch::randn({5}).requires_grad_();
    const auto parts = wrap([&] { return Tensors{x.exp().sin().sum(), y.tanh().cos().sum()}; });
    parts[0].backward();
    EXPECT_FALSE(y.grad().defined());
    parts[1].backward();
    return Tensors{x.grad(), y.grad()};
  });
}

TEST(Exactness, E14TwoLossesOverOverlappingParts) {
  expect_same_step([](const Wrap& wrap) {
    nn::Linear trunk(4, 4);
    const auto x = torch::randn({3, 4}).requires_grad_();
    const auto heads = wrap([&] {
      const auto shared = trunk(x).tanh();
      return Tensors{shared.exp().sum(), (shared * shared.sin()).sum()};
    });
    heads[0].backward({}, true);
    heads[1].backward();
    return Tensors{x.grad(), trunk->weight.grad(), trunk->bias.grad()};
  });
}

TEST(Exactness, E14OneOfTwoLossesIsNeverUsed) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({5}).requires_grad_();
    auto parts = wrap([&] {
      const auto shared = x.exp();
      return Tensors{shared.sin().sum(), shared.cos().tanh().sum()};
    });
    parts[0].backward();
    return Tensors{x.grad()};
  });
}

/// The Jacobian of y by x, in as many passes as y has values.
Tensors jacobian(const at::Tensor& y, const at::Tensor& x) {
  Tensors rows;
  for (std::int64_t row = 0; row < y.numel(); ++row) {
    const bool is_last = row + 1 == y.numel();
    rows.push_back(torch::autograd::grad({y[row]}, {x}, {}, /*retain_graph=*/!is_last)[0]);
  }
  return rows;
}

at::Tensor mixed(const at::Tensor& x) { return (x.exp().cumsum(0).tanh() * x.sin()).cos(); }

// More passes than are planned for.
TEST(Exactness, E14AJacobianRowByRow) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({12}).requires_grad_();
    return jacobian(one(wrap)([&] { return mixed(x); }), x);
  });
}

TEST(Exactness, E14JacobiansOfManyRowsArePlannedOnce) {
  const auto x = torch::randn({12}).requires_grad_();
  const auto expected = jacobian(mixed(x), x);
  for (const char* policy : {"drop_all", "nested", "every_2"}) {
    Region region({.policy = policy});
    for (int step = 0; step < 3; ++step) {
      expect_same_bits(expected, jacobian(region.run([&] { return mixed(x); }), x));
    }
    EXPECT_TRUE(region.last_step().followed_plan) << policy << ": " << region.last_step().reason;
    EXPECT_EQ(region.num_plans(), 1) << policy;
  }
}

TEST(Exactness, E15ParameterInsideAndOutsideGetsOneFullGradient) {
  expect_same_step([](const Wrap& wrap) {
    const auto weight = torch::randn({3, 3}).requires_grad_();
    const auto x = torch::randn({3, 3});
    Tensors seen;
    weight.register_hook([&](at::Tensor gradient) {
      seen.push_back(gradient.clone());
      return gradient;
    });
    (one(wrap)([&] { return x.mm(weight).exp().tanh(); }) * weight).sum().backward();
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_TRUE(same_bits(seen[0], weight.grad()));
    return seen;
  });
}

// Descends as soon as a parameter's gradient is there, and lets go of it.
struct FusedDescent : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor& parameter) override {
    const torch::NoGradGuard no_grad;
    at::Tensor(parameter).sub_(parameter.grad(), 0.1);
    at::Tensor(parameter).mutable_grad() = at::Tensor();
  }
};

TEST(Exactness, E23OptimizerThatStepsInsideGradientHooks) {
  expect_same_step([](const Wrap& wrap) {
    nn::Sequential model(nn::Linear(6, 6), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({6})),
                         nn::Linear(6, 6), nn::Tanh(), nn::Linear(6, 2));
    for (const auto& parameter : model->parameters()) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<FusedDescent>());
    }
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      one(wrap)([&] { return model->forward(x); }).exp().sum().backward();
      EXPECT_FALSE(model->parameters()[0].grad().defined());
    }
    Tensors parameters;
    for (const auto& parameter : model->parameters()) parameters.push_back(parameter.detach());
    return parameters;
  });
}

}  // namespace
}  // namespace gradrecomp::test
