// Conformance E17 to E20: whatever goes into a region, is written inside, and comes out.
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

TEST(Exactness, E17FrozenInputWithSomeFrozenWeights) {
  expect_exact([] {
    auto program = sequential(
        nn::Sequential(nn::Linear(6, 6), nn::Tanh(), nn::Linear(6, 6), nn::GELU()), {4, 6});
    program.module->parameters()[0].requires_grad_(false);
    program.inputs = [] { return Tensors{torch::randn({4, 6})}; };
    return program;
  });
}

TEST(Exactness, E17EverythingFrozenSavesNothing) {
  nn::Linear linear(4, 4);
  for (auto& parameter : linear->parameters()) parameter.requires_grad_(false);
  Region region({.policy = "drop_all"});
  const auto x = torch::randn({2, 4});
  const auto y = region.run([&] { return linear(x).tanh(); });
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(same_bits(y, linear(x).tanh()));
  EXPECT_FALSE(region.has_plan());
}

TEST(Exactness, E18SeveralInputsAndOutputsOfAllKinds) {
  expect_exact([] {
    Program program;
    program.module = std::make_shared<nn::Module>();
    program.forward = [](const Tensors& inputs) {
      const auto& [x, y] = std::tie(inputs[0], inputs[1]);
      const auto product = x.exp() * y.tanh();
      return Tensors{product.sigmoid(), x, product.detach(), y.argmax(1), product.sum({0})};
    };
    program.inputs = [] {
      return Tensors{torch::randn({3, 4}).requires_grad_(), torch::randn({3, 4}).requires_grad_()};
    };
    return program;
  });
}

TEST(Exactness, E18OutputReturnedTwiceAndAViewOfIt) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4, 4}).requires_grad_();
    const auto all = wrap([&] {
      const auto y = x.exp().sin();
      return Tensors{y, y, y.t(), y.slice(0, 1, 3)};
    });
    EXPECT_TRUE(all[0].is_same(all[1]));
    (all[0].sum() + all[1].cos().sum() + all[2].exp().sum() + all[3].tanh().sum()).backward();
    return Tensors{x.grad(), all[0], all[2], all[3]};
  });
}

TEST(Exactness, E18OutputThatIsAViewWhoseBaseWasWrittenAfterwards) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4}).requires_grad_();
    const auto half = one(wrap)([&] {
      auto whole = torch::zeros({4});
      const auto view = whole.slice(0, 0, 2);
      whole.copy_(x.exp().sin());
      return view;
    });
    EXPECT_TRUE(half.is_leaf()) << "a region must not ask for its node before the program does";
    half.tanh().sum().backward();
    EXPECT_FALSE(half.is_leaf());
    return Tensors{x.grad(), half};
  });
}

TEST(Exactness, E18OutputThatAutogradWouldRefuseToUse) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4}).requires_grad_();
    const auto all = wrap([&] {
      auto whole = x + 1;
      auto outputs = whole.split(2);
      outputs.push_back(whole.mul_(0.5).exp().sin());
      return outputs;
    });
    EXPECT_THROW(static_cast<void>(all[0].grad_fn()), c10::Error);
    all[2].sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(Exactness, E19InPlaceReluAfterConvolution) {
  expect_exact([] {
    return sequential(nn::Sequential(nn::Conv2d(2, 4, 3), nn::ReLU(nn::ReLUOptions(true)),
                                     nn::Conv2d(4, 2, 3), nn::ReLU(nn::ReLUOptions(true))),
                      {2, 2, 7, 7});
  });
}

TEST(Exactness, E19InPlaceReluAfterInstanceNorm) {
  expect_exact([] {
    return sequential(nn::Sequential(nn::Conv2d(2, 4, 3),
                                     nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)),
                                     nn::ReLU(nn::ReLUOptions(true)), nn::Conv2d(4, 2, 3)),
                      {2, 2, 7, 7});
  });
}

TEST(Exactness, E19InPlaceChainOnAViewAsTheLastOp) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          auto view = (inputs[0].exp() * 2).view({4, -1});
          return Tensors{torch::relu_(view.sub_(1.5).mul_(inputs[0].view({4, -1})))};
        },
        {2, 4, 3});
  });
}

TEST(Exactness, E19SlicesWrittenInPlace) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          const auto& x = inputs[0];
          auto buffer = torch::zeros_like(x);
          for (int i = 0; i < 4; ++i) {
            begin_stage("slice " + std::to_string(i));
            buffer.slice(1, i, i + 1).copy_(x.slice(1, 3 - i, 4 - i).exp().sin());
          }
          buffer.select(0, 1).mul_(x.select(0, 0).tanh());
          return Tensors{buffer.cos()};
        },
        {2, 4, 3});
  });
}

TEST(Exactness, E19OutputIsWrittenInPlaceAfterTheRegion) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4}).requires_grad_();
    auto y = one(wrap)([&] { return x.sin().exp() + 1; });
    y.mul_(3).add_(x);
    y.sum().backward();
    return Tensors{x.grad(), y};
  });
}

TEST(Exactness, E19OutputThatIsAViewIsWrittenInPlaceAfterTheRegion) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({4, 3}).requires_grad_();
    auto outputs = wrap([&] {
      auto y = x.sin().exp() + 1;
      return Tensors{y.select(0, 1), y};
    });
    outputs[0].mul_(3);
    (outputs[0].sum() + outputs[1].cos().sum()).backward();
    return Tensors{x.grad(), outputs[1]};
  });
}

TEST(Exactness, E20OddShapesTypesAndLayoutsInside) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          const auto& x = inputs[0];
          auto empty = x.slice(0, 0, 0).exp().sum();
          auto scalar = x.sum().tanh() * 3;
          auto chosen = torch::where(x > 0, x.exp(), x.sin());
          auto complex = torch::fft_fft(x.to(torch::kDouble)).abs();
          auto strided = x.transpose(2, 3).cos().contiguous(at::MemoryFormat::ChannelsLast).tanh();
          auto expanded = x.mean({0}, true).expand({4, 2, 3, 3}).sigmoid();
          auto index = x.argmax(3, true).to(torch::kInt);
          return Tensors{empty, scalar, chosen, complex, strided, expanded, index};
        },
        {4, 2, 3, 3});
  });
}

// Reads `input` in a few ways that any type of number allows.
void expect_exact_with(const std::function<at::Tensor()>& input) {
  const auto make = [&input] {
    auto weight = function({}, {});
    weight.forward = [](const Tensors& inputs) {
      const auto mixed = inputs[0].sum().exp() * inputs[1];
      return Tensors{mixed.sin() * mixed, inputs[1].sum() * inputs[0].tanh()};
    };
    weight.inputs = [&input] { return Tensors{torch::randn({3}).requires_grad_(), input()}; };
    return weight;
  };
  EXPECT_GT(expect_same_training(make, {{.policy = "drop_all"}, {.policy = "every_1"}}), 0);
}

TEST(Exactness, E20InputsOfOddShapesTypesAndLayouts) {
  expect_exact_with([] { return torch::randn({0, 3}).requires_grad_(); });
  expect_exact_with([] { return torch::randn({}).requires_grad_(); });
  expect_exact_with([] { return torch::randn({4}) > 0; });
  expect_exact_with([] { return torch::randint(-5, 5, {4, 2}); });
  expect_exact_with([] { return torch::randn({4}, torch::kComplexFloat).requires_grad_(); });
  expect_exact_with([] { return torch::randn({4, 6}).t().slice(0, 1, 5, 2).requires_grad_(); });
  expect_exact_with([] {
    return torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  });
  expect_exact_with([] { return torch::randn({1, 3}).expand({4, 3}).requires_grad_(); });
}

}  // namespace
}  // namespace gradrecomp::test
