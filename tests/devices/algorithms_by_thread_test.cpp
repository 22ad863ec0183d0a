#include "support/host_device/host_device.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

Tensors steps_of_convolutions(const Wrap& wrap) {
  nn::Sequential model(nn::Conv2d(3, 8, 3), nn::GELU(), nn::Conv2d(8, 8, 3), nn::GELU());
  move_to_host_device(*model);
  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({2, 3, 16, 16}).to(kHostDevice);
    one(wrap)([&] { return model->forward(x); }).exp().sum().backward();
  }
  Tensors all;
  for (const auto& parameter : model->parameters()) all.push_back(parameter.grad().cpu());
  return all;
}

class ByThread : public ::testing::TestWithParam<Verify> {};

INSTANTIATE_TEST_SUITE_P(Ways, ByThread,
                         ::testing::Values(Verify::first_step, Verify::every_n_steps));

// Backward replays on autograd's thread, where a convolution rounds otherwise than it did in
// forward.
TEST_P(ByThread, ConvolutionsThatRoundByThreadAreTheSame) {
  const AlgorithmsByThread algorithms;
  torch::manual_seed(7);
  const auto plain = steps_of_convolutions([](const auto& body) { return body(); });
  Region region({.policy = "drop_all", .verify = GetParam()});
  torch::manual_seed(7);
  expect_same_bits(plain,
                   steps_of_convolutions([&](const auto& body) { return region.run(body); }));
}

}  // namespace
}  // namespace gradrecomp::test
