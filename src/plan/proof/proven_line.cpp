#include "proven_line.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "plan/bounds/cost_units.h"
#include "plan/bounds/relaxation.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

Int128 ceiling(Int128 part, Int128 whole) { return part <= 0 ? 0 : (part - 1) / whole + 1; }

void check(const Graph& graph, const Proof& proof, const std::string& name) {
  Index last = -1;
  std::int64_t sum = 0;
  const auto num_events = static_cast<Index>(graph.events.size());
  for (const auto& [event, weight] : proof.moments) {
    if (event <= last || event >= num_events) {
      raise({"Plan", name + ".moments", std::to_string(event),
             "ascending events of the graph, which has " + std::to_string(num_events),
             "Pass the graph that the plan was made for"});
    }
    if (weight <= 0 || weight > ProvenLine::kHighestSumOfWeights - sum) {
      raise({"Plan", name + ".weights", std::to_string(weight), "above 0, and 2^41 in sum at most",
             "Make the plan anew"});
    }
    last = event;
    sum += weight;
  }
  if (proof.price < 0 || proof.price > ProvenLine::kHighestPrice) {
    raise({"Plan", name + ".price", std::to_string(proof.price), "from 0 to 2^55",
           "Make the plan anew"});
  }
}

/// Per event, the weights of all moments up to it.
std::vector<Int128> weights_up_to(const Graph& graph, const Proof& proof) {
  std::vector<Int128> sums(graph.events.size(), 0);
  for (const auto& [event, weight] : proof.moments) sums[event] = weight;
  for (std::size_t t = 1; t < sums.size(); ++t) sums[t] += sums[t - 1];
  return sums;
}

}  // namespace

ProvenLine::ProvenLine(const Graph& graph, const ReplayCost& replay_cost, const Proof& proof,
                       const char* name)
    : price_(proof.price) {
  check(graph, proof, name);
  const Relaxation relaxation(graph);
  for (const auto& [event, weight] : proof.moments) {
    sum_of_weights_ += weight;
    value_ += Int128{weight} * relaxation.base_bytes()[event];
  }
  const auto weights = weights_up_to(graph, proof);
  const auto held = [&](Index v, Index from, Index to) -> Int128 {
    return to > from ? (weights[to] - weights[from]) * graph.values[v].bytes : Int128{0};
  };
  const auto replay = [&](Index op) -> Int128 {
    return price_ * units_within(replay_cost.overhead(graph.ops[op]));
  };
  value_ += relaxation.least<Int128>(held, replay).cost;
}

std::int64_t ProvenLine::peak_bytes(double overhead) const {
  if (sum_of_weights_ == 0) return 0;
  if (price_ > 0 && overhead >= kDearestOp) return 0;
  const std::int64_t units = price_ > 0 ? units_around(overhead) : 0;
  return static_cast<std::int64_t>(ceiling(value_ - price_ * units, sum_of_weights_));
}

double ProvenLine::overhead(std::int64_t peak_bytes) const {
  if (price_ == 0) return 0;
  const Int128 units = ceiling(value_ - sum_of_weights_ * peak_bytes, price_) - 1;
  return std::ldexp(static_cast<double>(std::max(units, Int128{0})), -kCostBits);
}

}  // namespace gradrecomp::plan
