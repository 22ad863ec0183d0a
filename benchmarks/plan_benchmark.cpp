#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "gradrecomp/plan/solver.h"
#include "support/model_graphs.h"

namespace {

using gradrecomp::plan::CostModel;
using gradrecomp::plan::Graph;
using gradrecomp::plan::Plan;

/// ResNet with that many bottleneck blocks in its third stage; 36 of them make ResNet-152.
Graph resnet(const benchmark::State& state) {
  return gradrecomp::testing::resnet_graph({3, 8, static_cast<int>(state.range(0)), 3}, 2);
}

void simulate(benchmark::State& state) {
  const Graph graph = resnet(state);
  gradrecomp::plan::Simulator simulator(graph);
  const auto keep = gradrecomp::plan::pointwise_only(graph);
  for (auto _ : state) benchmark::DoNotOptimize(simulator.run(keep).peak_bytes);
  state.counters["ops"] = static_cast<double>(graph.ops.size());
  state.counters["events"] = static_cast<double>(graph.events.size());
}

void make_plan(benchmark::State& state, CostModel cost) {
  const Graph graph = resnet(state);
  Plan plan;
  for (auto _ : state) {
    plan = gradrecomp::plan::make_plan(graph, {.max_overhead = 0.05, .cost = cost});
  }
  state.counters["ops"] = static_cast<double>(graph.ops.size());
  state.counters["peak_percent_of_plain"] = 100 * static_cast<double>(plan.predicted_peak_bytes) /
                                            static_cast<double>(plan.predicted_plain_peak_bytes);
}

}  // namespace

BENCHMARK(simulate)->Arg(1)->Arg(36)->Arg(140)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(make_plan, flops, CostModel::flops)
    ->Arg(1)
    ->Arg(36)
    ->Arg(140)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_plan, seconds, CostModel::seconds)->Arg(36)->Unit(benchmark::kMillisecond);
