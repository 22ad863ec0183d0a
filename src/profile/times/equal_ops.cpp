#include "profile/times/equal_ops.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gradrecomp::profile {
namespace {

using Bytes = std::vector<std::int64_t>;
using Kind = std::tuple<std::string_view, double, double, bool, bool, bool, Bytes, Bytes>;

Bytes bytes_of(const plan::Graph& graph, const std::vector<plan::Index>& values) {
  Bytes bytes;
  for (const plan::Index value : values) bytes.push_back(graph.values[value].bytes);
  return bytes;
}

Kind kind_of(const plan::Graph& graph, const plan::Op& op) {
  return {op.name,
          op.flops,
          op.bytes_moved,
          op.is_part,
          op.by_kernel,
          op.joins,
          bytes_of(graph, op.inputs),
          bytes_of(graph, op.outputs)};
}

/// Of the middle half, as a sample may have waited for another process.
double mean_of_middle(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto cut = static_cast<std::ptrdiff_t>(samples.size() / 4);
  const double sum = std::accumulate(samples.begin() + cut, samples.end() - cut, 0.0);
  return sum / static_cast<double>(std::ssize(samples) - 2 * cut);
}

void average(std::vector<plan::Op*>& ops, double plan::Op::*seconds) {
  std::vector<double> samples;
  for (const plan::Op* op : ops) samples.push_back(op->*seconds);
  const double mean = mean_of_middle(std::move(samples));
  for (plan::Op* op : ops) op->*seconds = mean;
}

}  // namespace

void average_seconds_of_equal_ops(plan::Graph& graph) {
  std::map<Kind, std::vector<plan::Op*>> kinds;
  for (plan::Op& op : graph.ops) kinds[kind_of(graph, op)].push_back(&op);
  for (auto& [kind, ops] : kinds) {
    if (ops.size() == 1) continue;
    average(ops, &plan::Op::replay_seconds);
    average(ops, &plan::Op::joined_seconds);
  }
}

}  // namespace gradrecomp::profile
