// Plans one recorded model at the batch size and overheads of a published table, and prints both.
//
// Usage: published_tables <model> <number of parameters> <step> <its batch> <step> <its batch>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/plan/batch_fit.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/prove_further.h"
#include "gradrecomp/plan/simulate.h"

namespace {

using namespace gradrecomp::plan;

struct Row {
  double gigabytes;         ///< of the whole training step
  double overhead_percent;  ///< of GPU seconds
};

struct Table {
  std::string_view model;
  Index batch;
  double plain_gigabytes;
  std::vector<Row> rows;
};

/// Source:  MONeT's README, PyTorch 1.5.1, float32; Shah et al., Memory optimization for deep
///          networks, 2021.
const std::array<Table, 5>& monet() {
  static const std::array<Table, 5> tables{{
      {"resnet50",
       184,
       15.06,
       {{10.01, 3.22}, {9.01, 4.68}, {8.01, 5.56}, {6.99, 7.28}, {6.00, 9.31}, {4.99, 11.95}}},
      {"googlenet",
       320,
       14.93,
       {{9.98, 7.13}, {8.99, 7.87}, {8.01, 8.44}, {7.02, 9.71}, {6.01, 12.14}, {4.99, 15.77}}},
      {"unet",
       11,
       14.32,
       {{10.01, -4.10}, {9.01, -2.07}, {8.02, -0.09}, {7.00, 1.39}, {6.01, 4.95}, {5.01, 11.51}}},
      {"mobilenet_v2",
       272,
       14.46,
       {{10.02, 2.40}, {9.01, 3.10}, {8.02, 4.77}, {7.01, 5.53}, {6.01, 7.55}, {5.01, 8.72}}},
      {"vgg16",
       176,
       14.12,
       {{9.71, -5.30}, {8.66, -4.64}, {7.88, -2.18}, {6.82, 1.99}, {5.90, 5.44}, {5.51, 9.11}}},
  }};
  return tables;
}

const Table& table_of(std::string_view model) {
  const auto found = std::ranges::find(monet(), model, &Table::model);
  if (found != monet().end()) return *found;
  throw std::invalid_argument("<model> is " + std::string(model) + ", but must be in a table.");
}

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; }

/// Recorded steps of one model, and what else training it holds.
struct Recordings {
  BatchFit fit;
  double parameter_gigabytes;  ///< parameters and their gradients
};

Recordings read(std::span<char*> arguments) {
  const auto step = [&](int place) { return load_graph(arguments[place]).graph; };
  const auto batch = [&](int place) { return static_cast<Index>(std::atoi(arguments[place])); };
  constexpr std::int64_t kBytesEach = 8;
  return {BatchFit(step(3), batch(4), step(5), batch(6)),
          gigabytes(kBytesEach * std::atoll(arguments[2]))};
}

void print_row(const Graph& graph, const Table& table, const Row& row, double parameters) {
  const double budget = std::max(0.0, row.overhead_percent / 100);
  const Plan plan =
      prove_further(graph, make_plan(graph, {.max_overhead = budget, .cost = CostModel::flops}));
  const double peak = gigabytes(plan.predicted_peak_bytes);
  const double plain = gigabytes(plan.predicted_plain_peak_bytes);
  const double proven = gigabytes(plan.proven_peak_bytes);
  std::printf(
      "| %6.2f%% | %5.2f | %5.1f%% | %5.2f | %5.1f%% | %5.2f | %5.1f%% | %5.1f%% | %5.2f%% |\n",
      row.overhead_percent, row.gigabytes, 100 * row.gigabytes / table.plain_gigabytes,
      peak + parameters, 100 * (peak + parameters) / (plain + parameters), peak, 100 * peak / plain,
      100 * proven / plain, 100 * plan.predicted_overhead_flops);
  std::fflush(stdout);
}

void print_table(const Table& table, const Recordings& recordings) {
  const Graph graph = recordings.fit.graph_at(table.batch);
  const double plain = gigabytes(simulate(graph, keep_all(graph)).peak_bytes);
  std::printf(
      "\n%s, batch %d; plain: %.2f GiB published, %.2f GiB here, %.2f of them activations\n\n",
      std::string(table.model).c_str(), table.batch, table.plain_gigabytes,
      plain + recordings.parameter_gigabytes, plain);
  std::puts(
      "| GPU seconds | MONeT GB | of plain | total GiB | of plain | activation GiB | of plain | "
      "proven | "
      "FLOPs |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  for (const Row& row : table.rows) print_row(graph, table, row, recordings.parameter_gigabytes);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 7) {
      throw std::invalid_argument(
          "the number of arguments must be 6: a model, its number of parameters, and twice a step "
          "and its batch.");
    }
    print_table(table_of(argv[1]), read({argv, static_cast<std::size_t>(argc)}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "published_tables: %s\n", error.what());
    return 1;
  }
}
