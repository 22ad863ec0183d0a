// Conformance E1, E2, E16, E22: models train under every plan as they train plainly.
#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/fno.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/vit.h"
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

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

TEST(Exactness, E1CnnUnderEveryPolicyAndBudget) {
  auto options = every_policy();
  for (int tenth = 0; tenth <= 10; ++tenth) options.push_back({.max_overhead = tenth / 10.0});
  const auto make = [] {
    return sequential(
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::ReLU(),
                       nn::Conv2d(nn::Conv2dOptions(8, 8, 3).stride(2)), nn::Sigmoid(),
                       nn::MaxPool2d(2), nn::Flatten(), nn::Linear(72, 5)),
        {2, 3, 14, 14});
  };
  EXPECT_GT(expect_same_training(make, options), 0);
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

TEST(Exactness, E16FourierLayers) {
  expect_exact([] {
    const models::FnoOptions options{
        .in_channels = 2, .hidden_channels = 4, .num_layers = 2, .num_modes = 4};
    return staged(models::Fno(options), [] { return torch::randn({2, 2, 8, 9}); });
  });
}

TEST(Exactness, E16LayerUsedTwiceAndTiedWeights) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto table = module->register_module("table", nn::Embedding(12, 6));
    auto shared = module->register_module("shared", nn::Linear(6, 6));
    const auto forward = [table, shared](const Tensors& inputs) mutable {
      const auto words = table->forward(torch::tensor({1, 3, 3, 11}));
      auto x = shared->forward((inputs[0] + words).tanh());
      x = shared->forward(torch::gelu(x));
      return Tensors{torch::linear(x.sigmoid(), table->weight)};
    };
    return program(module, forward, {4, 6});
  });
}

TEST(Exactness, E16CellInALoopWithSharedWeights) {
  expect_exact([] {
    nn::GRUCell cell(4, 8);
    const auto forward = [cell](const Tensors& inputs) mutable {
      auto hidden = torch::zeros({3, 8});
      for (int t = 0; t < 5; ++t) {
        begin_stage("time " + std::to_string(t));
        hidden = cell(inputs[0][t], hidden);
      }
      return Tensors{hidden};
    };
    return program(cell.ptr(), forward, {5, 3, 4});
  });
}

TEST(Exactness, E16LstmAndGruModules) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto lstm = module->register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 6).num_layers(2)));
    auto gru = module->register_module("gru", nn::GRU(nn::GRUOptions(6, 5).bidirectional(true)));
    const auto forward = [lstm, gru](const Tensors& inputs) mutable {
      auto hidden = std::get<0>(lstm->forward(inputs[0]));
      return Tensors{std::get<0>(gru->forward(hidden.tanh()))};
    };
    return program(module, forward, {7, 2, 4});
  });
}

nn::Conv2d same_size(std::int64_t in, std::int64_t out) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1));
}

TEST(Exactness, E22SkipsOfAUNet) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    auto down = module->register_module("down", same_size(2, 4));
    auto deep = module->register_module("deep", same_size(4, 4));
    auto up = module->register_module("up", same_size(8, 2));
    const auto forward = [down, deep, up](const Tensors& inputs) mutable {
      begin_stage("down");
      auto skip = torch::relu(down->forward(inputs[0]));
      begin_stage("deep");
      auto x = torch::relu(deep->forward(torch::max_pool2d(skip, 2)));
      begin_stage("up");
      x = at::upsample_nearest2d(x, {8, 8});
      return Tensors{up->forward(torch::cat({skip, x}, 1)).tanh()};
    };
    return program(module, forward, {2, 2, 8, 8});
  });
}

TEST(Exactness, E22SkipsOfADenseNet) {
  expect_exact([] {
    auto module = std::make_shared<nn::Module>();
    std::vector<nn::Conv2d> layers;
    for (int i = 0; i < 3; ++i) {
      layers.push_back(module->register_module(std::to_string(i), same_size(2 + 3 * i, 3)));
    }
    const auto forward = [layers](const Tensors& inputs) mutable {
      Tensors features = {inputs[0]};
      for (auto& layer : layers) {
        begin_stage("layer " + std::to_string(features.size()));
        features.push_back(torch::relu(layer->forward(torch::cat(features, 1))));
      }
      return Tensors{torch::cat(features, 1).tanh()};
    };
    return program(module, forward, {2, 2, 6, 6});
  });
}

TEST(Exactness, E22ValueHeldByTheUserStaysReadable) {
  auto x = torch::randn({4, 4}).requires_grad_();
  at::Tensor inside;
  auto y = detail::run_dropped([&] {
    inside = x.exp();
    return inside.tanh().sum();
  });
  y.backward();
  EXPECT_TRUE(same_bits(inside, x.exp()));
}

}  // namespace
}  // namespace gradrecomp::test
