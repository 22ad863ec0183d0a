#include "fuzz/program/random_plan.h"

#include <iterator>
#include <optional>
#include <vector>

#include "support/plans.h"

namespace gradrecomp::fuzzing {
namespace {

using test::may_leave;

const std::vector<std::string>& policies() {
  static const std::vector<std::string> all = {
      "drop_all",        "keep_all",  "every_1",     "every_2",        "every_3",
      "sqrt_n",          "uniform_3", "chen_greedy", "pointwise_only", "selective",
      "whole_block_0.5", "nested",    "revolve_2",   "revolve_3"};
  return all;
}

/// An op from that on which makes `value`.
plan::Index draw_leaving(Dice& dice, const plan::Graph& graph, const plan::Value& value) {
  return static_cast<plan::Index>(dice.between(value.producer, std::ssize(graph.ops) - 1));
}

/// Sends some of what `plan` keeps to host memory, at any moments that a plan can name.
void draw_offloads(Dice& dice, const plan::Graph& graph, plan::Plan& plan) {
  const double share = dice.real();
  const auto num_values = static_cast<plan::Index>(graph.values.size());
  for (plan::Index v = 0; v < num_values; ++v) {
    const plan::Value& value = graph.values[v];
    if (plan.keep[v] == 0 || !may_leave(value) || !dice.chance(share)) continue;
    plan.offloads.push_back(
        {.value = v,
         .leaves_after = draw_leaving(dice, graph, value),
         .returns_at = static_cast<plan::Index>(dice.between(-1, num_values - 1))});
  }
}

}  // namespace

void draw_budget(Dice& dice, std::int64_t plain_peak_bytes, Options& options) {
  options.cost = dice.chance(0.3) ? plan::CostModel::seconds : plan::CostModel::flops;
  if (dice.chance(0.5)) {
    options.max_overhead = dice.real() * 0.3;
    return;
  }
  const auto share = 0.1 + 0.9 * dice.real();
  options.max_peak_bytes =
      1 + static_cast<std::int64_t>(static_cast<double>(plain_peak_bytes) * share);
}

Options random_options(Dice& dice, std::int64_t plain_peak_bytes) {
  Options options;
  options.window_bytes =
      dice.of(std::vector<std::optional<std::int64_t>>{1, 64, 1024, 16384, std::nullopt});
  options.substitutes = dice.chance(0.75);
  if (dice.chance(0.88)) {
    options.policy = dice.of(policies());
  } else {
    draw_budget(dice, plain_peak_bytes, options);
    options.offload = dice.chance(0.3);
  }
  return options;
}

plan::Plan random_plan(Dice& dice, const plan::Graph& graph) {
  plan::Plan plan{.policy = "random", .signature = graph.signature};
  const double share = dice.real();
  const auto drawn = [&](plan::Index v) {
    return graph.values[v].overwritten_by < 0 && dice.chance(share);
  };
  const auto num_values = static_cast<plan::Index>(graph.values.size());
  for (plan::Index v = 0; v < num_values; ++v) plan.keep.push_back(dice.chance(share / 3));
  if (dice.chance(0.5)) draw_offloads(dice, graph, plan);
  for (plan::Index target = 0; target < num_values; ++target) {
    if (!graph.values[target].saved || !drawn(target)) continue;
    plan.sweeps.push_back({.target = target});
    for (plan::Index v = 0; v < num_values; ++v) {
      if (drawn(v)) plan.sweeps.back().cached.push_back(v);
    }
  }
  return plan;
}

plan::Plan random_rounding_plan(Dice& dice, const plan::Graph& graph) {
  plan::Plan plan = random_plan(dice, graph);
  plan.offloads.clear();
  const double share = dice.real();
  for (plan::Index v = 0; v < std::ssize(graph.values); ++v) {
    const plan::Value& value = graph.values[v];
    if (value.exact) plan.keep[v] = 1;
    if (!value.rounds || !may_leave(value) || !dice.chance(share)) continue;
    plan.keep[v] = 1;
    plan.roundings.push_back({.value = v, .after = draw_leaving(dice, graph, value)});
  }
  return plan;
}

std::string described(const Options& options) {
  if (options.policy) return options.policy->name();
  if (options.plan) return "random plan";
  return options.max_overhead ? "max_overhead" : "max_peak_bytes";
}

}  // namespace gradrecomp::fuzzing
