// Conformance E6, E7, E8: random ops draw once, and replays draw the same.
#include "support/programs.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

TEST(Exactness, E6DropoutBeforeAndInsideOverFiveSteps) {
  const auto make = [] {
    auto program = sequential(nn::Sequential(nn::Linear(16, 16), nn::Dropout(0.3), nn::Tanh(),
                                             nn::Dropout(0.5), nn::Linear(16, 8)),
                              {8, 16});
    program.inputs = [] {
      return Tensors{torch::dropout(torch::randn({8, 16}), 0.2, true).requires_grad_()};
    };
    return program;
  };
  expect_exact(make, 5);
}

TEST(Exactness, E6DropoutBeforeInsideAndAfterTheRegion) {
  expect_same_step([](const Wrap& wrap) {
    const auto x = torch::randn({8, 8}).requires_grad_();
    Tensors all;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto before = torch::dropout(x, 0.2, true);
      const auto inside = one(wrap)([&] { return torch::dropout(before.exp(), 0.5, true).sin(); });
      const auto after = torch::dropout(inside, 0.3, true);
      all.push_back(torch::autograd::grad({after.sum()}, {x})[0]);
    }
    return all;
  });
}

TEST(Exactness, E7DropoutOnAUsersOwnGenerator) {
  expect_exact([] {
    auto generator = std::make_shared<at::Generator>(at::detail::createCPUGenerator(5));
    return function(
        [generator](const Tensors& inputs) {
          const auto mask = torch::empty_like(inputs[0]).bernoulli_(0.5, *generator);
          return Tensors{(inputs[0].exp() * mask).tanh() * inputs[0]};
        },
        {6, 6});
  });
}

TEST(Exactness, E7AUsersOwnGeneratorEndsWhereItEndsPlainly) {
  expect_same_step([](const Wrap& wrap) {
    auto generator = at::detail::createCPUGenerator(5);
    const auto x = torch::randn({6}).requires_grad_();
    const auto y =
        one(wrap)([&] { return (x.exp() * torch::empty({6}).bernoulli_(0.5, generator)).sin(); });
    return Tensors{torch::autograd::grad({y.sum()}, {x})[0], generator.get_state()};
  });
}

TEST(Exactness, E8RegionWithoutRandomOpsTouchesNoGenerator) {
  torch::manual_seed(3);
  const auto before = random_state();
  auto x = torch::ones({4, 4}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int i = 0; i < 3; ++i) region.run([&] { return x.exp().tanh().sum(); }).backward();
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  EXPECT_TRUE(same_bits(before, random_state()));
}

TEST(Exactness, E8RegionWithoutRandomOpsReadsNoGenerator) {
  auto tape = std::make_shared<tape::Tape>();
  const auto nothing = std::make_shared<const tape::Retentions>();
  const auto x = torch::ones({4, 4}).requires_grad_();
  at::Tensor y;
  {
    const tape::Recorder recorder(tape, {nullptr, nothing});
    y = torch::softmax(x.exp().mm(x), 1).sum();
    for (const auto& op : tape->ops()) {
      EXPECT_EQ(op.rng, nullptr) << op.name();
    }
  }
  tape->seal();
  y.backward();
  EXPECT_GT(tape->counts().replayed_ops, 0);
}

}  // namespace
}  // namespace gradrecomp::test
