// Conformance E3, E4, E5: running statistics see one forward pass, whatever is replayed.
#include "support/modes.h"
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

// Two normalisations, one with a momentum and one that averages over all batches.
template <typename Norm>
Program normalised(std::vector<std::int64_t> sizes) {
  auto module = std::make_shared<nn::Module>();
  const auto channels = sizes[1];
  auto first = module->register_module("first", Norm(nn::BatchNormOptions(channels).momentum(0.3)));
  auto second = module->register_module(
      "second", Norm(nn::BatchNormOptions(channels).momentum(std::nullopt)));
  const auto forward = [first, second](const Tensors& inputs) mutable {
    begin_stage("first");
    const auto x = torch::relu(first->forward(inputs[0].sin()));
    begin_stage("second");
    return Tensors{second->forward(x.exp()).tanh()};
  };
  return program(module, forward, std::move(sizes));
}

TEST(Exactness, E3StatisticsOfBatchNorm1dOverFiveSteps) {
  expect_exact([] { return normalised<nn::BatchNorm1d>({4, 3, 9}); }, 5);
}

TEST(Exactness, E3StatisticsOfBatchNorm2dOverFiveSteps) {
  expect_exact([] { return normalised<nn::BatchNorm2d>({4, 3, 5, 5}); }, 5);
}

TEST(Exactness, E3StatisticsOfBatchNorm3dOverFiveSteps) {
  expect_exact([] { return normalised<nn::BatchNorm3d>({2, 3, 3, 4, 4}); }, 5);
}

TEST(Exactness, E4StatisticsAreUpdatedOnceEvenWithoutBackward) {
  nn::BatchNorm2d norm(3);
  nn::BatchNorm2d plain(3);
  Region region({.policy = "drop_all"});
  const auto images = torch::randn({2, 3, 4, 4});
  for (int step = 1; step <= 2; ++step) {
    plain->forward(images);
    region.run([&] { return norm->forward(images); });
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), step);
    EXPECT_TRUE(same_bits(norm->running_mean, plain->running_mean));
    EXPECT_TRUE(same_bits(norm->running_var, plain->running_var));
  }
}

TEST(Exactness, E5StatisticsAreUntouchedInEval) {
  expect_exact([] {
    auto program = normalised<nn::BatchNorm1d>({6, 4});
    program.module->eval();
    return program;
  });
  auto program = normalised<nn::BatchNorm1d>({6, 4});
  program.module->eval();
  detail::run_dropped([&] { return program.forward({torch::randn({6, 4})}); });
  for (const auto& buffer : program.module->named_buffers()) {
    const bool is_variance = buffer.key().ends_with("running_var");
    EXPECT_EQ(buffer.value().sum().item<double>(), is_variance ? 4 : 0) << buffer.key();
  }
}

// A training pass between the region and its backward, as with two passes for one loss.
TEST(Exactness, E5StatisticsThatWereReadAndAreUpdatedBehindTheRegion) {
  expect_same_step([](const Wrap& wrap) {
    nn::BatchNorm2d norm(3);
    const auto x = torch::randn({2, 3, 4, 4}).requires_grad_();
    norm->eval();
    const auto judged = one(wrap)([&] { return norm(x).sin(); });
    norm->train();
    const auto trained = norm(x * 3 + 1);
    (judged.sum() + trained.exp().sum()).backward();
    return Tensors{judged, x.grad(), norm->weight.grad(), norm->running_mean, norm->running_var};
  });
}

// By an operator that only ever reads them.
TEST(Exactness, E5StatisticsThatAreReadByNameAndAreUpdatedBehindTheRegion) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::randn({6, 6}).requires_grad_();
    const auto gain = torch::ones({6}).requires_grad_();
    const auto mean = torch::zeros({6});
    const auto var = torch::ones({6});
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 6});
      const auto y = run([&] {
        const auto h = x.mm(weight).relu();
        return std::get<0>(at::_batch_norm_no_update(h, gain, {}, mean, var, 0.1, 1e-5)).tanh();
      });
      at::native_batch_norm(x, {}, {}, mean, var, true, 0.1, 1e-5);
      y.sum().backward();
      for (const auto& p : {weight, gain}) {
        all.push_back(std::exchange(p.mutable_grad(), at::Tensor()));
      }
    }
    return all;
  });
}

// As SyncBatchNorm has them updated, by a node of its own that saves what they are made from.
struct Centred : torch::autograd::Function<Centred> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& running_mean, const at::Tensor& running_var) {
    const auto [mean, var] = at::batch_norm_update_stats(x, running_mean, running_var, 0.1);
    context->save_for_backward({mean, var});
    return x - mean;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[0] + saved[1], {}, {}};
  }
};

TEST(Exactness, E3StatisticsThatAnOperatorUpdatesAlone) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::randn({6}).requires_grad_();
    const auto mean = torch::zeros({6});
    const auto var = torch::ones({6});
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 6});
      const auto y = run([&] { return Centred::apply((x * weight).exp(), mean, var).sin(); });
      y.sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    all.push_back(mean);
    all.push_back(var);
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
