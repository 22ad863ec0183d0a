#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/prove_further.h"
#include "gradrecomp/plan/simulate.h"
#include "support/plan/model_graphs.h"
#include "support/plan/shape_graphs.h"
#include "support/plan/skip_graphs.h"

// How good plans are: of each graph, at a few budgets, the predicted peak and the least that is not
// ruled out, both in percent of the plain peak, and the seconds that planning took.
//
//   plan_quality PATH...   PATH: a graph that `gradrecomp plan --save-graph` wrote, a folder of
//                          them, or the name of a graph given by formulas; "formulas": all these

namespace {

using namespace gradrecomp::plan;
namespace test = gradrecomp::test;

struct Formula {
  std::string name;
  std::function<Graph()> make;
};

const std::vector<Formula>& formulas() {
  static const std::vector<Formula> all{
      {"dag_200", [] { return test::dag_graph(200, 20, 1); }},
      {"dag_1000", [] { return test::dag_graph(1000, 20, 1); }},
      {"tree_7", [] { return test::tree_graph(7, 1); }},
      {"grid_12", [] { return test::grid_graph(12, 12, 1); }},
      {"skips_24", [] { return test::skip_graph(24, 1); }},
      {"lstm_50", [] { return test::lstm_graph(50); }},
      {"lstm_200", [] { return test::lstm_graph(200); }},
      {"unet_4", [] { return test::unet_graph(4, 2); }},
      {"densenet_201",
       [] {
         return test::densenet_graph({6, 12, 48, 32}, 4);
       }},
      {"resnet_152",
       [] {
         return test::resnet_graph({3, 8, 36, 3}, 2);
       }},
      {"bert_24", [] { return test::bert_graph(24, 2, 128); }},
      {"chain_1000", [] { return test::long_chain_graph(1000, 1); }},
      {"chain_5000", [] { return test::long_chain_graph(5000, 1); }},
      {"chain_20000", [] { return test::long_chain_graph(20000, 1); }},
  };
  return all;
}

double percent(std::int64_t part, std::int64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void print(const std::string& name, CostModel cost, const std::string& budget, const Plan& plan) {
  const bool in_seconds = cost == CostModel::seconds;
  const double peak = percent(plan.predicted_peak_bytes, plan.predicted_plain_peak_bytes);
  const double proven = percent(plan.proven_peak_bytes, plan.predicted_plain_peak_bytes);
  std::printf("| %-14s | %-12s | %7.3f | %7.3f | %7.3f | %7.3f | %s | %7.2f |\n", name.c_str(),
              (budget + (in_seconds ? " seconds" : " FLOPs")).c_str(), peak, proven, peak - proven,
              100 * plan.predicted_overhead(cost), plan.feasible ? "yes" : " no",
              plan.planning_seconds);
  std::fflush(stdout);
}

void show(const std::string& name, const Graph& graph) {
  for (const CostModel cost : {CostModel::seconds, CostModel::flops}) {
    for (const int overhead : {5, 10, 20}) {
      const Plan plan =
          prove_further(graph, make_plan(graph, {.max_overhead = overhead / 100.0, .cost = cost}));
      print(name, cost, std::to_string(overhead) + "%", plan);
    }
  }
  const std::int64_t plain = simulate(graph, keep_all(graph)).peak_bytes;
  for (const int peak : {40, 20}) {
    const Plan plan =
        prove_further(graph, make_plan(graph, {.max_peak_bytes = plain * peak / 100}));
    print(name, CostModel::seconds, "p" + std::to_string(peak), plan);
  }
}

void show_file(const std::filesystem::path& path) {
  show(path.stem().string(), load_graph(path).graph);
}

void show_all_of(const std::string& argument) {
  for (const Formula& formula : formulas()) {
    if (argument == "formulas" || argument == formula.name) show(formula.name, formula.make());
  }
  if (std::filesystem::is_regular_file(argument)) show_file(argument);
  if (!std::filesystem::is_directory(argument)) return;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argument)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const auto& path : paths) show_file(path);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::puts(
        "| graph          | budget       |    peak |  proven |     gap | overhead | met | s |");
    std::puts("|---|---|---|---|---|---|---|---|");
    for (int i = 1; i < argc; ++i) show_all_of(argv[i]);
  } catch (const std::exception& error) {
    std::cerr << "plan_quality: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
