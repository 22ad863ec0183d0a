#pragma once

#include <benchmark/benchmark.h>
#include <torch/torch.h>

namespace gradrecomp::benchmarks {

inline constexpr int kOps = 1000;

/// So many small ops one after the other.
inline at::Tensor chain(at::Tensor x) {
  for (int i = 0; i < kOps; ++i) x = x.sin();
  return x;
}

/// Has a benchmark of chain() say what one op takes.
inline void per_op(benchmark::State& state) {
  state.counters["seconds_per_op"] = benchmark::Counter(
      kOps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace gradrecomp::benchmarks
