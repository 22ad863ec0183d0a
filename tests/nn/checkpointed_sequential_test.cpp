// Conformance I: a wrapped model is to the rest of the program the plain one.
#include "gradrecomp/checkpointed_sequential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

nn::Sequential make_model() {
  torch::manual_seed(6);
  return nn::Sequential(nn::Linear(4, 8), nn::BatchNorm1d(8), nn::ReLU(nn::ReLUOptions(true)),
                        nn::Dropout(0.2), nn::Linear(8, 3));
}

TEST(CheckpointedSequential, I1NamesAreThoseOfThePlainModel) {
  auto model = make_model();
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  EXPECT_EQ(model->named_parameters().keys(), net->named_parameters().keys());
  EXPECT_EQ(model->named_buffers().keys(), net->named_buffers().keys());
}

TEST(CheckpointedSequential, I1SavedWeightsInterchangeWithThePlainModel) {
  auto model = make_model();
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  net->forward(torch::randn({6, 4})).sum().backward();
  std::stringstream file;
  torch::save(net, file);
  auto other = make_model();
  torch::load(other, file);
  for (const auto& buffer : net->named_buffers()) {
    EXPECT_TRUE(same_bits(buffer.value(), other->named_buffers()[buffer.key()]));
  }
}

TEST(CheckpointedSequential, I1TrainsWithAnOptimizerBuiltBeforeOrAfterWrapping) {
  const auto train = [](bool wrap, bool optimizer_first) {
    auto model = make_model();
    auto first = torch::optim::Adam(model->parameters(), 1e-2);
    CheckpointedSequential net(model, Options{.policy = "drop_all"});
    auto second = torch::optim::Adam(net->parameters(), 1e-2);
    auto& optimizer = optimizer_first ? first : second;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const auto x = torch::randn({6, 4});
      (wrap ? net->forward(x) : model->forward(x)).tanh().sum().backward();
      optimizer.step();
    }
    return model->parameters();
  };
  const auto plain = train(false, true);
  for (const bool optimizer_first : {true, false}) {
    const auto wrapped = train(true, optimizer_first);
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], wrapped[i]));
  }
}

TEST(CheckpointedSequential, I1CloneIsIndependentAndKeepsItsOptions) {
  CheckpointedSequential net(make_model(), Options{.policy = "every_2"});
  net->eval();
  auto copy = std::dynamic_pointer_cast<CheckpointedSequentialImpl>(net->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->region().options().policy, "every_2");
  EXPECT_FALSE(copy->is_training());
  const torch::NoGradGuard no_grad;
  copy->parameters()[0].add_(1);
  EXPECT_FALSE(same_bits(copy->parameters()[0], net->parameters()[0]));
  EXPECT_EQ(copy->named_parameters().keys(), net->named_parameters().keys());
}

TEST(CheckpointedSequential, I1CloneKeepsTheModeOfEachChild) {
  for (const bool training : {true, false}) {
    CheckpointedSequential net(make_model(), Options{.policy = "every_2"});
    net->train(training);
    net->children()[1]->train(!training);
    const auto copy = net->clone();
    EXPECT_EQ(copy->is_training(), training);
    for (std::size_t i = 0; i < net->children().size(); ++i) {
      EXPECT_EQ(copy->children()[i]->is_training(), net->children()[i]->is_training()) << i;
    }
  }
}

TEST(CheckpointedSequential, I1ConvertsToAnotherDtypeAndBack) {
  CheckpointedSequential net(make_model(), Options{.policy = "drop_all"});
  net->forward(torch::randn({6, 4})).sum().backward();
  net->to(torch::kDouble);
  net->zero_grad();
  net->forward(torch::randn({6, 4}, torch::kDouble)).sum().backward();
  EXPECT_EQ(net->parameters()[0].grad().scalar_type(), torch::kDouble);
  EXPECT_EQ(net->region().num_plans(), 2);
}

TEST(CheckpointedSequential, I1TrainAndEvalReachEveryChildAndTrainingGoesOn) {
  const auto steps = [](auto forward, nn::Module& module) {
    torch::manual_seed(5);
    std::vector<at::Tensor> outputs;
    for (const bool training : {true, true, false, true}) {
      module.train(training);
      outputs.push_back(forward(torch::randn({6, 4})));
      if (training) outputs.back().sum().backward();
    }
    outputs.push_back(module.parameters()[0].grad());
    return outputs;
  };
  auto model = make_model();
  const auto plain = steps([&](const auto& x) { return model->forward(x); }, *model);
  auto wrapped = make_model();
  CheckpointedSequential net(wrapped, Options{.policy = "drop_all"});
  expect_same_bits(plain, steps([&](const auto& x) { return net->forward(x); }, *net));
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
  net->eval();
  EXPECT_FALSE((wrapped->begin() + 3)->ptr()->is_training());
}

TEST(CheckpointedSequential, I1StateOfThePlainModelLoadsIntoTheWrappedOne) {
  auto model = make_model();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(1);
  std::stringstream file;
  torch::save(model, file);
  CheckpointedSequential net(make_model(), Options{.policy = "drop_all"});
  torch::load(net, file);
  expect_same_bits(model->parameters(), net->parameters());
}

TEST(CheckpointedSequential, I2ParameterHooksFireOnceInReverseLayerOrder) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 4), nn::Tanh(),
                       nn::Linear(4, 4));
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  std::vector<std::string> order;
  for (auto& parameter : net->named_parameters()) {
    if (!parameter.key().ends_with("weight")) continue;
    parameter.value().register_hook([&order, name = parameter.key()](at::Tensor gradient) {
      order.push_back(name);
      return gradient;
    });
  }
  for (int step = 0; step < 2; ++step) {
    order.clear();
    net->forward(torch::randn({2, 4})).sum().backward();
    EXPECT_THAT(order, ::testing::ElementsAre("4.weight", "2.weight", "0.weight"));
  }
}

struct TwoInputsImpl : nn::Module {
  at::Tensor forward(const at::Tensor& a, const at::Tensor& b) { return a.exp() * b.tanh(); }
};
TORCH_MODULE(TwoInputs);

TEST(CheckpointedSequential, I3HandWrittenModuleWithSeveralInputsAndALambda) {
  nn::Sequential model(TwoInputs(), nn::Functional([](at::Tensor x) { return x.sin(); }));
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  auto a = torch::randn({3}).requires_grad_();
  auto b = torch::randn({3}).requires_grad_();
  const auto plain = torch::autograd::grad({model->forward(a, b).sum()}, {a, b});
  for (int step = 0; step < 2; ++step) {
    const auto wrapped = torch::autograd::grad({net->forward(a, b).sum()}, {a, b});
    EXPECT_TRUE(same_bits(plain[0], wrapped[0]));
    EXPECT_TRUE(same_bits(plain[1], wrapped[1]));
  }
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
}

TEST(CheckpointedSequential, I3AnyModulesOfNamesAndLambdas) {
  nn::Sequential model;
  model->push_back("first", nn::AnyModule(nn::Linear(4, 4)));
  model->push_back("act", nn::AnyModule(nn::Functional(torch::tanh)));
  model->push_back(nn::AnyModule(nn::Functional([](at::Tensor x) { return x.exp().sin(); })));
  CheckpointedSequential net(model, {.policy = "drop_all"});
  const auto x = torch::randn({3, 4}).requires_grad_();
  const auto plain = torch::autograd::grad({model->forward(x).sum()}, {x});
  for (int step = 0; step < 2; ++step) {
    expect_same_bits(plain, torch::autograd::grad({net->forward(x).sum()}, {x}));
  }
  EXPECT_EQ(net->region().graph().stages[1].name, "act");
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
}

// The way LibTorch has for a Sequential inside a Sequential.
struct InnerImpl : nn::SequentialImpl {
  using nn::SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor x) { return nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Inner);

TEST(CheckpointedSequential, I3NestedSequentialIsOneStageAndKeepsItsNames) {
  nn::Sequential model(nn::Linear(4, 4), Inner(nn::Tanh(), nn::Linear(4, 4), nn::GELU()),
                       nn::Linear(4, 2));
  CheckpointedSequential net(model, {.policy = "every_1"});
  EXPECT_EQ(net->named_parameters().keys(), model->named_parameters().keys());
  auto x = torch::randn({3, 4}).requires_grad_();
  const auto plain = torch::autograd::grad({model->forward(x).sum()}, {x})[0];
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({net->forward(x).sum()}, {x})[0]));
  }
  EXPECT_EQ(net->region().graph().stages.size(), 3U);
  EXPECT_GT(net->region().last_step().num_replayed_ops, 0);
}

TEST(CheckpointedSequential, ReportsNameEveryStage) {
  nn::Sequential model(
      {{"first", nn::AnyModule(nn::Linear(4, 4))}, {"act", nn::AnyModule(nn::Tanh())}});
  CheckpointedSequential net(model, Options{.policy = "every_1"});
  EXPECT_THAT(net->brief_report(), ::testing::HasSubstr("no plan yet"));
  net->forward(torch::randn({2, 4})).sum().backward();
  EXPECT_THAT(net->full_report(), ::testing::HasSubstr("first"));
  EXPECT_THAT(net->full_report(), ::testing::HasSubstr("act"));
  EXPECT_THAT(net->brief_report(), ::testing::HasSubstr("every_1"));
}

TEST(CheckpointedSequential, RefusesChildrenAddedLater) {
  auto model = make_model();
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  model->push_back(nn::ReLU());
  for (const bool training : {true, false}) {
    net->train(training);
    EXPECT_THROW(net->forward(torch::randn({2, 4})), c10::ValueError);
  }
}

TEST(CheckpointedSequential, RefusesAnEmptyModel) {
  EXPECT_THROW(CheckpointedSequential{nn::Sequential()}, c10::ValueError);
}

}  // namespace
}  // namespace gradrecomp::test
