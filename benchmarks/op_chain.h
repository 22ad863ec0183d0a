#pragma once

#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <cstdint>

#include "malloc_calls.h"

namespace gradrecomp::benchmarks {

inline constexpr int kOps = 1000;

/// So many small ops one after the other.
inline at::Tensor chain(at::Tensor x) {
  for (int i = 0; i < kOps; ++i) x = x.sin();
  return x;
}

/// Has a benchmark of chain(), which `run` runs once more, say what one op takes.
template <typename Run>
void per_op(benchmark::State& state, const Run& run) {
  const std::int64_t before = num_malloc_calls();
  benchmark::DoNotOptimize(run());
  state.counters["mallocs_per_op"] = static_cast<double>(num_malloc_calls() - before) / kOps;
  state.counters["seconds_per_op"] = benchmark::Counter(
      kOps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace gradrecomp::benchmarks
