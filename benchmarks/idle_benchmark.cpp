// What the library costs where it is not used: plain training before and after its first step in a
// process, and a wrapped model that does not train. Their order matters, so do not interleave them.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "gradrecomp/checkpointed_sequential.h"

namespace {

namespace nn = torch::nn;

constexpr int kLayers = 100;

// Small layers: what is spent per op, not in kernels, is what could change.
nn::Sequential make_net() {
  torch::manual_seed(1);
  nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) net->push_back(nn::Linear(4, 4)), net->push_back(nn::Tanh());
  return net;
}

template <typename Net>
void train(benchmark::State& state, Net net) {
  const auto x = torch::ones({2, 4});
  for (auto _ : state) net->forward(x).sum().backward();
}

template <typename Net>
void infer(benchmark::State& state, Net net) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::ones({2, 4});
  net->eval();
  for (auto _ : state) benchmark::DoNotOptimize(net->forward(x));
}

void training_before(benchmark::State& state) { train(state, make_net()); }
BENCHMARK(training_before);
void training_before_again(benchmark::State& state) { train(state, make_net()); }
BENCHMARK(training_before_again);

void inference_plain(benchmark::State& state) { infer(state, make_net()); }
BENCHMARK(inference_plain);
void inference_plain_again(benchmark::State& state) { infer(state, make_net()); }
BENCHMARK(inference_plain_again);

void use_once(const benchmark::State& /*state*/) {
  gradrecomp::CheckpointedSequential net(make_net(), {.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) net->forward(torch::ones({2, 4})).sum().backward();
}

void training_after(benchmark::State& state) { train(state, make_net()); }
BENCHMARK(training_after)->Setup(use_once);
void training_after_again(benchmark::State& state) { train(state, make_net()); }
BENCHMARK(training_after_again);

void inference_plain_after(benchmark::State& state) { infer(state, make_net()); }
BENCHMARK(inference_plain_after);
void inference_wrapped(benchmark::State& state) {
  infer(state, gradrecomp::CheckpointedSequential(make_net()));
}
BENCHMARK(inference_wrapped);
void inference_wrapped_again(benchmark::State& state) {
  infer(state, gradrecomp::CheckpointedSequential(make_net()));
}
BENCHMARK(inference_wrapped_again);

}  // namespace
