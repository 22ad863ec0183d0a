// What recording costs per op beyond plain, and what a replay costs per op beyond the op.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "tape/record/recorder.h"
#include "tape/replay/replayer.h"

namespace {

using namespace gradrecomp;

constexpr int kOps = 1000;

at::Tensor chain(at::Tensor x) {
  for (int i = 0; i < kOps; ++i) x = x.sin();
  return x;
}

void per_op(benchmark::State& state) {
  state.counters["seconds_per_op"] = benchmark::Counter(
      kOps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void forward_plain(benchmark::State& state) {
  const auto x = torch::randn({1}).requires_grad_();
  for (auto _ : state) benchmark::DoNotOptimize(chain(x));
  per_op(state);
}
BENCHMARK(forward_plain);

// Keeps everything, so that the difference to plain is the recording alone.
void forward_recorded(benchmark::State& state) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto keep = std::make_shared<const tape::Retentions>(kOps + 1, tape::Retention::keep);
  for (auto _ : state) {
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {nullptr, keep});
      y = chain(x);
    }
    tape->seal();
    benchmark::DoNotOptimize(y);
  }
  per_op(state);
}
BENCHMARK(forward_recorded);

// One sweep that makes the whole chain again, against the chain run below autograd.
void replay(benchmark::State& state) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto nothing = std::make_shared<const tape::Retentions>();
  for (auto _ : state) {
    state.PauseTiming();
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {nullptr, nothing});
      y = chain(x);
    }
    tape->seal();
    state.ResumeTiming();
    benchmark::DoNotOptimize(tape::Replayer(*tape).materialize(kOps - 1));
    state.PauseTiming();
    y = at::Tensor();
    state.ResumeTiming();
  }
  per_op(state);
}
BENCHMARK(replay);

void forward_below_autograd(benchmark::State& state) {
  const auto x = torch::randn({1});
  const at::AutoDispatchBelowADInplaceOrView below;
  for (auto _ : state) benchmark::DoNotOptimize(chain(x));
  per_op(state);
}
BENCHMARK(forward_below_autograd);

}  // namespace
