// What recording costs per op beyond plain, in time and in memory between forward and backward, and
// what a replay costs per op beyond the op.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <utility>

#include "op_chain.h"
#include "tape/record/recorder.h"
#include "tape/replay/replayer.h"

namespace {

using namespace gradrecomp;
using namespace gradrecomp::benchmarks;

/// Notes what `run` leaves on the heap while what it returns lives, tensors of one element
/// included.
template <typename Run>
void count_heap(benchmark::State& state, const Run& run) {
  const auto before = static_cast<double>(mallinfo2().uordblks);
  const auto living = run();
  const auto after = static_cast<double>(mallinfo2().uordblks);
  state.counters["heap_bytes_per_op"] = (after - before) / kOps;
}

void forward_plain(benchmark::State& state) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto run = [&] { return chain(x); };
  for (auto _ : state) benchmark::DoNotOptimize(run());
  per_op(state, run);
  count_heap(state, run);
}
BENCHMARK(forward_plain);

// Keeps everything, so that the difference to plain is the recording alone.
void forward_recorded(benchmark::State& state) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto keep = std::make_shared<const tape::Retentions>(kOps + 1, tape::Retention::keep);
  const auto record = [&] {
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {nullptr, keep});
      y = chain(x);
    }
    tape->seal();
    return std::pair(std::move(tape), std::move(y));
  };
  for (auto _ : state) benchmark::DoNotOptimize(record());
  per_op(state, record);
  count_heap(state, record);
}
BENCHMARK(forward_recorded);

/// A tape of the chain of which nothing is kept but the end.
struct DroppedChain {
  std::shared_ptr<tape::Tape> tape = std::make_shared<tape::Tape>();
  at::Tensor end;

  DroppedChain() {
    const auto x = torch::randn({1}).requires_grad_();
    {
      const tape::Recorder recorder(tape, {nullptr, std::make_shared<const tape::Retentions>()});
      end = chain(x);
    }
    tape->seal();
  }
};

// One sweep that makes the whole chain again, against the chain run below autograd.
void replay(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    std::optional<DroppedChain> dropped(std::in_place);
    state.ResumeTiming();
    benchmark::DoNotOptimize(tape::Replayer(*dropped->tape).materialize(kOps - 1));
    state.PauseTiming();
    dropped.reset();
    state.ResumeTiming();
  }
  const DroppedChain dropped;
  per_op(state, [&] { return tape::Replayer(*dropped.tape).materialize(kOps - 1); });
}
BENCHMARK(replay);

void forward_below_autograd(benchmark::State& state) {
  const auto x = torch::randn({1});
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto run = [&] { return chain(x); };
  for (auto _ : state) benchmark::DoNotOptimize(run());
  per_op(state, run);
}
BENCHMARK(forward_below_autograd);

}  // namespace
