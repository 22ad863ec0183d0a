#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/graph/choosable_values.h"
#include "plan/simulator/incremental.h"
#include "support/plan/model_graphs.h"
#include "support/plan/shape_graphs.h"
#include "support/plan/skip_graphs.h"

// Times of the planner on steps of models as formulas give them, without Torch. For a recorded step
// of the real models run `gradrecomp plan`, which prints its planning time too.

namespace {

using gradrecomp::plan::CostModel;
using gradrecomp::plan::Graph;
using gradrecomp::plan::Plan;

Graph resnet_152() { return gradrecomp::test::resnet_graph({3, 8, 36, 3}, 2); }
Graph bert_large() { return gradrecomp::test::bert_graph(24, 2, 128); }
Graph vit_base() { return gradrecomp::test::bert_graph(12, 2, 197); }
Graph hundred_blocks() { return gradrecomp::test::resnet_graph({8, 24, 60, 8}, 2); }
Graph dag_1000() { return gradrecomp::test::dag_graph(1000, 20, 1); }
Graph unet() { return gradrecomp::test::unet_graph(4, 2); }

double percent(std::int64_t part, std::int64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void show(benchmark::State& state, const Graph& graph, const Plan& plan) {
  state.counters["ops"] = static_cast<double>(graph.ops.size());
  state.counters["peak_percent_of_plain"] =
      percent(plan.predicted_peak_bytes, plan.predicted_plain_peak_bytes);
  state.counters["proven_percent_of_plain"] =
      percent(plan.proven_peak_bytes, plan.predicted_plain_peak_bytes);
}

void simulate(benchmark::State& state, Graph (*model)()) {
  const Graph graph = model();
  gradrecomp::plan::Simulator simulator(graph);
  const auto keep = gradrecomp::plan::pointwise_only(graph);
  for (auto _ : state) benchmark::DoNotOptimize(simulator.run(keep).peak_bytes);
  state.counters["events"] = static_cast<double>(graph.events.size());
}

/// One value after the other changes sides, and back.
void attempt(benchmark::State& state, Graph (*model)()) {
  const Graph graph = model();
  gradrecomp::plan::IncrementalSimulator simulator(graph);
  simulator.start(gradrecomp::plan::pointwise_only(graph), {});
  simulator.aim_at(simulator.now().peak_bytes * 9 / 10);
  std::vector<gradrecomp::plan::Move> moves;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto value = static_cast<gradrecomp::plan::Index>(v);
    if (gradrecomp::plan::can_choose(graph.values[v])) {
      moves.push_back({.value = value, .keep = !simulator.keeps(value)});
    }
  }
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulator.attempt({&moves[i++ % moves.size()], 1}).peak_bytes);
  }
}

void make_plan(benchmark::State& state, Graph (*model)(), CostModel cost) {
  const Graph graph = model();
  Plan plan;
  for (auto _ : state) {
    plan = gradrecomp::plan::make_plan(graph, {.max_overhead = 0.05, .cost = cost});
  }
  show(state, graph, plan);
}

void make_front(benchmark::State& state, Graph (*model)(), bool nested) {
  const Graph graph = model();
  std::vector<Plan> front;
  for (auto _ : state) {
    front = gradrecomp::plan::make_front(graph, {.cost = CostModel::flops, .nested = nested});
  }
  show(state, graph, front.back());
  state.counters["points"] = static_cast<double>(front.size());
}

/// The plan of least overhead whose peak is at most some percent of the plain one.
void make_plan_within(benchmark::State& state) {
  const Graph graph = hundred_blocks();
  const auto plain =
      gradrecomp::plan::simulate(graph, gradrecomp::plan::keep_all(graph)).peak_bytes;
  Plan plan;
  for (auto _ : state) {
    plan = gradrecomp::plan::make_plan(
        graph, {.max_peak_bytes = plain * state.range(0) / 100, .cost = CostModel::flops});
  }
  show(state, graph, plan);
  state.counters["overhead_percent"] = 100 * plan.predicted_overhead_flops;
}

}  // namespace

BENCHMARK_CAPTURE(simulate, resnet_152, resnet_152)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulate, dag_1000, dag_1000)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(attempt, resnet_152, resnet_152)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(attempt, dag_1000, dag_1000)->Unit(benchmark::kMicrosecond);

BENCHMARK_CAPTURE(make_plan, resnet_152_flops, resnet_152, CostModel::flops)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_plan, resnet_152_seconds, resnet_152, CostModel::seconds)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_plan, bert_large_flops, bert_large, CostModel::flops)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_plan, unet_flops, unet, CostModel::flops)->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(make_front, resnet_152, resnet_152, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_front, bert_large, bert_large, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_front, vit_base, vit_base, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_front, resnet_152_nested, resnet_152, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_front, hundred_blocks_nested, hundred_blocks, true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(make_plan_within)->Arg(35)->Arg(20)->Arg(12)->Arg(8)->Unit(benchmark::kMillisecond);
