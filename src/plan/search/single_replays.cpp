#include "single_replays.h"

#include <algorithm>
#include <array>

#include "local_search.h"
#include "plan/chain/chain_search.h"
#include "plan/policies/policy_sets.h"

namespace gradrecomp::plan {
namespace {

constexpr int kMaxEvery = 32;
constexpr ChainSize kSize{.max_cost = kMostOnce, .num_buckets = 400, .num_open_points = 32};
constexpr std::array kRungs{0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25, 0.35};

void add_policies(const Graph& graph, LocalSearch& local_search, Front& front) {
  for (KeptSet& keep : simple_sets(graph, kMaxEvery)) {
    front.add(local_search.evaluate(std::move(keep)));
  }
}

void add_chain(const ChainSearch& chain, std::int64_t max_peak_bytes, LocalSearch& local_search,
               Front& front) {
  ChainSize size = kSize;
  size.max_peak_bytes = max_peak_bytes;
  for_each_large_step(chain.front(size), max_peak_bytes, [&](const ChainPoint& point) {
    front.add(local_search.evaluate(chain.kept(point)));
  });
}

}  // namespace

Front find_single_replays(const Graph& graph, const ReplayCost& replay_cost,
                          const std::vector<Constraint>& constraints, const SingleReplays& wanted) {
  Front front;
  LocalSearch local_search(graph, replay_cost, constraints);
  const ChainSearch chain(graph, replay_cost, constraints, Replays::once);
  add_policies(graph, local_search, front);
  add_chain(chain, wanted.max_peak_bytes, local_search, front);
  // Where the menus are complete, a local search finds next to nothing.
  if (chain.is_well_cut()) return front;
  const auto per_simulation = static_cast<double>(graph.events.size() + graph.ops.size() + 1);
  const int num_simulations = static_cast<int>(std::min(2000.0, 5e6 / per_simulation));
  for (const double rung : kRungs) {
    const std::size_t start = front.last_within(rung);
    if (rung > wanted.max_overhead || start == Front::kNone) continue;
    front.add(local_search.lower_peak(front.candidates()[start], rung, num_simulations));
  }
  return front;
}

}  // namespace gradrecomp::plan
