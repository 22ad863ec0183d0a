// Conformance E: a step under any plan equals the plain step bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/vit.h"
#include "gradrecomp/nn/checkpoint.h"
#include "gradrecomp/region/region.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using Tensors = std::vector<at::Tensor>;

Program sequential(nn::Sequential model, std::vector<std::int64_t> input_sizes) {
  return {model.ptr(),
          [model](const Tensors& inputs) mutable {
            at::Tensor x = inputs[0];
            for (std::size_t i = 0; i < model->size(); ++i) {
              begin_stage(std::to_string(i));
              x = (model->begin() + i)->forward(x);
            }
            return Tensors{x};
          },
          [input_sizes] { return Tensors{torch::randn(input_sizes).requires_grad_()}; }};
}

Program function(std::function<Tensors(const Tensors&)> forward,
                 std::vector<std::int64_t> input_sizes) {
  return {std::make_shared<nn::Module>(), std::move(forward),
          [input_sizes] { return Tensors{torch::randn(input_sizes).requires_grad_()}; }};
}

template <typename Model>
Program staged(Model model, std::function<at::Tensor()> input) {
  return {model.ptr(),
          [model](const Tensors& inputs) mutable {
            at::Tensor x = inputs[0];
            for (auto& stage : model->stages()) {
              begin_stage(stage.name);
              x = stage.forward(x);
            }
            return Tensors{x};
          },
          [input] { return Tensors{input()}; }};
}

void expect_exact(const std::function<Program()>& make, int num_steps = 3) {
  EXPECT_GT(expect_same_training(make, every_policy(), num_steps), 0) << "nothing was replayed";
}

TEST(Exactness, E1MlpUnderEveryPolicyAndBudget) {
  auto options = every_policy();
  for (int tenth = 0; tenth <= 10; ++tenth) options.push_back({.max_overhead = tenth / 10.0});
  const auto make = [] {
    return sequential(nn::Sequential(nn::Linear(8, 32), nn::Tanh(), nn::Linear(32, 32), nn::GELU(),
                                     nn::Linear(32, 4)),
                      {16, 8});
  };
  EXPECT_GT(expect_same_training(make, options), 0);
}

TEST(Exactness, E1CnnUnderEveryPolicy) {
  expect_exact([] {
    return sequential(
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::ReLU(),
                       nn::Conv2d(nn::Conv2dOptions(8, 8, 3).stride(2)), nn::Sigmoid(),
                       nn::MaxPool2d(2), nn::Flatten(), nn::Linear(72, 5)),
        {2, 3, 14, 14});
  });
}

TEST(Exactness, E2ResNet) {
  expect_exact([] {
    return staged(models::resnet18(10), [] { return torch::randn({2, 3, 32, 32}); });
  });
}

TEST(Exactness, E2Bert) {
  expect_exact([] {
    models::BertOptions options{.vocab_size = 50,
                                .hidden_size = 16,
                                .num_layers = 3,
                                .num_heads = 2,
                                .intermediate_size = 32,
                                .max_positions = 16};
    return staged(models::BertModel(options), [] { return torch::randint(0, 50, {2, 12}); });
  });
}

TEST(Exactness, E2Vit) {
  expect_exact([] {
    models::ViTOptions options;
    options.image_size = 16;
    options.patch_size = 4;
    options.num_layers = 3;
    options.num_heads = 2;
    options.hidden_size = 16;
    options.mlp_size = 32;
    options.num_classes = 7;
    options.zero_head = false;
    return staged(models::ViT(options), [] { return torch::randn({2, 3, 16, 16}); });
  });
}

TEST(Exactness, E3BatchNormStatisticsOverFiveSteps) {
  expect_exact(
      [] {
        return sequential(
            nn::Sequential(nn::Conv1d(3, 4, 3), nn::BatchNorm1d(4), nn::ReLU(), nn::Conv1d(4, 4, 1),
                           nn::BatchNorm1d(nn::BatchNormOptions(4).momentum(std::nullopt)),
                           nn::Tanh()),
            {4, 3, 9});
      },
      5);
}

TEST(Exactness, E4StatisticsAreUpdatedOnceEvenWithoutBackward) {
  nn::BatchNorm2d norm(3);
  nn::BatchNorm2d plain(3);
  Region region({.policy = "drop_all"});
  const auto images = torch::randn({2, 3, 4, 4});
  plain->forward(images);
  region.run([&] { return norm->forward(images); });
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
  EXPECT_TRUE(same_bits(norm->running_mean, plain->running_mean));
  EXPECT_TRUE(same_bits(norm->running_var, plain->running_var));
}

TEST(Exactness, E5StatisticsAreUntouchedInEval) {
  expect_exact([] {
    auto program = sequential(
        nn::Sequential(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::Tanh(), nn::Linear(4, 2)), {6, 4});
    program.module->eval();
    return program;
  });
}

TEST(Exactness, E6DropoutBeforeInsideAndAfter) {
  const auto make = [] {
    auto inner = nn::Sequential(nn::Linear(16, 16), nn::Dropout(0.3), nn::Tanh(), nn::Dropout(0.5),
                                nn::Linear(16, 8));
    auto program = sequential(inner, {8, 16});
    program.inputs = [] {
      return Tensors{torch::dropout(torch::randn({8, 16}), 0.2, true).requires_grad_()};
    };
    return program;
  };
  expect_exact(make, 5);
}

TEST(Exactness, E7DropoutOnAUsersOwnGenerator) {
  const auto make = [] {
    auto generator = std::make_shared<at::Generator>(at::detail::createCPUGenerator(5));
    return function(
        [generator](const Tensors& inputs) {
          const auto mask = torch::empty_like(inputs[0]).bernoulli_(0.5, *generator);
          return Tensors{(inputs[0].exp() * mask).tanh() * inputs[0]};
        },
        {6, 6});
  };
  expect_exact(make);
}

TEST(Exactness, E8RegionWithoutRandomOpsTouchesNoGenerator) {
  torch::manual_seed(3);
  const auto before = at::globalContext().defaultGenerator(c10::kCPU).get_state();
  auto x = torch::ones({4, 4}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int i = 0; i < 2; ++i) region.run([&] { return x.exp().tanh().sum(); }).backward();
  EXPECT_TRUE(same_bits(before, at::globalContext().defaultGenerator(c10::kCPU).get_state()));
}

TEST(Exactness, E10SecondAndThirdDerivative) {
  const auto derivatives = [](const std::function<at::Tensor(at::Tensor)>& f) {
    auto x = torch::linspace(-1, 1, 7, torch::kDouble).requires_grad_();
    Tensors all;
    at::Tensor y = f(x);
    for (int order = 0; order < 3; ++order) {
      y = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
      all.push_back(y.detach());
    }
    return all;
  };
  const auto body = [](at::Tensor x) { return (x.sin().exp() * x).tanh(); };
  const auto plain = derivatives(body);
  const auto wrapped = derivatives([&](at::Tensor x) { return checkpoint(body, x); });
  for (int order = 0; order < 3; ++order) EXPECT_TRUE(same_bits(plain[order], wrapped[order]));
}

TEST(Exactness, E10RegionsNestedInRegions) {
  expect_exact([] {
    return function(
        [](const Tensors& inputs) {
          auto inner = checkpoint([](at::Tensor x) { return x.exp().tanh(); }, inputs[0]);
          return Tensors{checkpoint([](at::Tensor x) { return x.sigmoid() * x; }, inner)};
        },
        {5, 5});
  });
}

TEST(Exactness, E11GradOfASubsetAccumulatesNothingElse) {
  nn::Linear first(4, 4);
  nn::Linear second(4, 4);
  const auto x = torch::randn({3, 4});
  const auto forward = [&] { return second(first(x).tanh()).tanh().sum(); };
  const auto plain = torch::autograd::grad({forward()}, {first->weight})[0];
  const auto wrapped = torch::autograd::grad({run_dropped(forward)}, {first->weight})[0];
  EXPECT_TRUE(same_bits(plain, wrapped));
  EXPECT_FALSE(second->weight.grad().defined());
  run_dropped(forward).backward({}, std::nullopt, false, at::TensorList({first->bias}));
  EXPECT_TRUE(first->bias.grad().defined());
  EXPECT_FALSE(first->weight.grad().defined());
}

TEST(Exactness, E12RetainGraphAllowsASecondBackward) {
  auto x = torch::randn({4, 4}).requires_grad_();
  const auto forward = [&] { return (x.exp().tanh() * x.sin()).sum(); };
  forward().backward();
  const auto once = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  const auto loss = run_dropped(forward);
  loss.backward({}, true);
  EXPECT_TRUE(same_bits(once, x.grad()));
  loss.backward();
  EXPECT_TRUE(same_bits(once + once, x.grad()));
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Exactness, E13AccumulationOverMicroBatches) {
  const auto accumulate = [](const Forward& run, nn::Sequential& model) {
    torch::manual_seed(9);
    for (int i = 0; i < 4; ++i) run({torch::randn({2, 6})})[0].sum().backward();
    return (*model->begin()).ptr()->parameters()[0].grad().clone();
  };
  torch::manual_seed(1);
  nn::Sequential model(nn::Linear(6, 6), nn::GELU(), nn::Linear(6, 3), nn::Tanh());
  const auto forward = [&](const Tensors& x) { return Tensors{model->forward(x[0])}; };
  const auto plain = accumulate(forward, model);
  model->zero_grad();
  Region region({.policy = "drop_all"});
  const auto wrapped =
      accumulate([&](const Tensors& x) { return region.run([&] { return forward(x); }); }, model);
  EXPECT_TRUE(same_bits(plain, wrapped));
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

TEST(Exactness, E15ParameterInsideAndOutsideGetsOneFullGradient) {
  auto weight = torch::randn({3, 3}).requires_grad_();
  const auto x = torch::randn({3, 3});
  const auto forward = [&] { return x.mm(weight).exp().tanh(); };
  (forward() * weight).sum().backward();
  const auto plain = weight.grad().clone();
  weight.mutable_grad() = at::Tensor();
  int calls = 0;
  weight.register_hook([&](at::Tensor gradient) {
    ++calls;
    EXPECT_TRUE(same_bits(gradient, plain));
    return gradient;
  });
  (run_dropped(forward) * weight).sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(Exactness, E16CellInALoopWithSharedWeights) {
  expect_exact([] {
    nn::GRUCell cell(4, 8);
    return Program{cell.ptr(),
                   [cell](const Tensors& inputs) mutable {
                     auto hidden = torch::zeros({3, 8});
                     for (int t = 0; t < 5; ++t) {
                       begin_stage("time " + std::to_string(t));
                       hidden = cell(inputs[0][t], hidden);
                     }
                     return Tensors{hidden};
                   },
                   [] {
                     return Tensors{torch::randn({5, 3, 4}).requires_grad_()};
                   }};
  });
}

TEST(Exactness, E16LstmAndGruModules) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto lstm = module->register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 6).num_layers(2)));
    auto gru = module->register_module("gru", nn::GRU(nn::GRUOptions(6, 5).bidirectional(true)));
    return Program{module,
                   [lstm, gru](const Tensors& inputs) mutable {
                     auto hidden = std::get<0>(lstm->forward(inputs[0]));
                     return Tensors{std::get<0>(gru->forward(hidden.tanh()))};
                   },
                   [] {
                     return Tensors{torch::randn({7, 2, 4}).requires_grad_()};
                   }};
  });
}

TEST(Exactness, E17FrozenInputAndFrozenWeights) {
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

TEST(Exactness, E18SeveralInputsAndOutputs) {
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

TEST(Exactness, E19InPlaceChainsAndSliceWrites) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto conv = module->register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)));
    auto norm = module->register_module(
        "norm", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)));
    return Program{module,
                   [conv, norm](const Tensors& inputs) mutable {
                     auto x = conv->forward(inputs[0]);
                     torch::relu_(x);
                     x = norm->forward(x * 2);
                     torch::relu_(x);
                     auto buffer = torch::zeros_like(x);
                     buffer.slice(1, 0, 2).copy_(x.slice(1, 2, 4).exp());
                     buffer.slice(1, 2, 4).copy_(x.slice(1, 0, 2).sin());
                     auto view = buffer.view({buffer.size(0), -1});
                     torch::relu_(view.mul_(1.5));
                     return Tensors{view};
                   },
                   [] {
                     return Tensors{torch::randn({2, 2, 5, 5}).requires_grad_()};
                   }};
  });
}

TEST(Exactness, E20OddShapesTypesAndLayouts) {
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

TEST(Exactness, E21IndexingSortingAndLists) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto table = module->register_module("table", nn::Embedding(10, 6));
    return Program{
        module,
        [table](const Tensors& inputs) mutable {
          const auto& x = inputs[0];
          const auto words = table->forward(torch::tensor({1, 3, 3, 9}));
          auto mixed = torch::cat({x.tanh(), words}, 0).exp().unbind(0);
          auto stacked = torch::stack(mixed, 1).sin();
          auto top = std::get<0>(stacked.topk(3, 0));
          auto sorted = std::get<0>(stacked.sort(1)).tanh();
          auto put = torch::zeros({6, 8}).index_put({torch::tensor({0, 2})}, stacked[0]);
          auto scattered = torch::zeros({6, 8}).scatter_add(0, torch::zeros({2, 8}, torch::kLong),
                                                            stacked.slice(0, 0, 2).cos());
          auto picked = stacked.index({torch::tensor({0, 0, 5}), torch::tensor({1, 2, 3})});
          return Tensors{top, sorted, put.exp(), scattered, picked.exp()};
        },
        [] {
          return Tensors{torch::randn({4, 6}).requires_grad_()};
        }};
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

TEST(Exactness, E22SkipsOfAUNet) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto down = module->register_module("down", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)));
    auto deep = module->register_module("deep", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
    auto up = module->register_module("up", nn::Conv2d(nn::Conv2dOptions(8, 2, 3).padding(1)));
    return Program{module,
                   [down, deep, up](const Tensors& inputs) mutable {
                     begin_stage("down");
                     auto skip = torch::relu(down->forward(inputs[0]));
                     begin_stage("deep");
                     auto x = torch::relu(deep->forward(torch::max_pool2d(skip, 2)));
                     begin_stage("up");
                     x = at::upsample_nearest2d(x, {8, 8});
                     return Tensors{up->forward(torch::cat({skip, x}, 1)).tanh()};
                   },
                   [] {
                     return Tensors{torch::randn({2, 2, 8, 8}).requires_grad_()};
                   }};
  });
}

TEST(Exactness, E22ValueHeldByTheUserStaysReadable) {
  auto x = torch::randn({4, 4}).requires_grad_();
  at::Tensor inside;
  auto y = run_dropped([&] {
    inside = x.exp();
    return inside.tanh().sum();
  });
  y.backward();
  EXPECT_TRUE(same_bits(inside, x.exp()));
}

}  // namespace
}  // namespace gradrecomp::test
