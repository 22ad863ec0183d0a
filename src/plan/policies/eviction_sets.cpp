#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/graph/choosable_values.h"
#include "plan/graph/wanted_values.h"
#include "plan/simulator/replay_cost.h"
#include "policy_sets.h"

// Note [ Eviction ]
// ~~~~~~~~~~~~~~~~~
// Forward runs under a limit of bytes. Whenever what is live goes above it, the value of least
//   cost of its replay / (bytes * ops since it was last read or made)
// is dropped for good, where the cost is that of the dropped ops that it needs, too. What is left
// at the end is the kept set. How much it saves in backward only the simulator can tell.
// Source: Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021; differs from it in that
//         nothing comes back before the end of forward, and that there is one limit for all of it.

namespace gradrecomp::plan {
namespace {

class Eviction {
 public:
  explicit Eviction(const Graph& graph)
      : graph_(graph), keep_(keep_all(graph)), readers_(graph.values.size()) {
    for (std::size_t v = 0; v < keep_.size(); ++v) {
      if (keep_[v] != 0) all_bytes_ += graph.values[v].bytes;
    }
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const Index u : graph.ops[i].inputs) readers_[u].push_back(static_cast<Index>(i));
    }
  }

  [[nodiscard]] std::int64_t all_bytes() const { return all_bytes_; }

  KeptSet run(std::int64_t limit_bytes) {
    keep_ = keep_all(graph_);
    last_use_.assign(graph_.values.size(), 0);
    cost_.assign(graph_.ops.size(), 0);
    live_.clear();
    std::int64_t live_bytes = 0;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      now_ = static_cast<Index>(i);
      const Op& op = graph_.ops[i];
      cost_[i] += least_replay_seconds(op);
      for (const Index u : op.inputs) last_use_[u] = now_;
      for (const Index v : op.outputs) {
        last_use_[v] = now_;
        if (keep_[v] == 0) {
          drop(v);
          continue;
        }
        live_bytes += graph_.values[v].bytes;
        if (can_choose(graph_.values[v])) live_.push_back(v);
      }
      while (live_bytes > limit_bytes && !live_.empty()) live_bytes -= evict();
    }
    return only_wanted(graph_, keep_);
  }

 private:
  std::int64_t evict() {
    const auto worth = [this](Index v) {
      const double bytes_by_age =
          static_cast<double>(graph_.values[v].bytes) * (1 + now_ - last_use_[v]);
      return cost_[graph_.values[v].producer] / (1 + bytes_by_age);
    };
    const auto least = std::ranges::min_element(live_, {}, worth);
    const Index v = *least;
    drop(v);
    live_.erase(least);
    return graph_.values[v].bytes;
  }

  /// Lets those that read it pay for its replay, too.
  void drop(Index v) {
    keep_[v] = 0;
    for (const Index reader : readers_[v]) cost_[reader] += cost_[graph_.values[v].producer];
  }

  const Graph& graph_;
  KeptSet keep_;
  std::vector<std::vector<Index>> readers_;  ///< per value: the ops
  std::int64_t all_bytes_ = 0;
  std::vector<Index> last_use_;  ///< per value: the op
  std::vector<double> cost_;     ///< per op: of its replay, with that of all inputs that are gone
  std::vector<Index> live_;
  Index now_ = 0;
};

}  // namespace

std::vector<KeptSet> eviction_sets(const Graph& graph, int most) {
  std::vector<KeptSet> sets;
  Eviction eviction(graph);
  for (int i = 1; i < most; ++i) sets.push_back(eviction.run(eviction.all_bytes() * i / most));
  return sets;
}

}  // namespace gradrecomp::plan
