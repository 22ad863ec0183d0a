#include "min_cut.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace gradrecomp::plan {
namespace {

// A flow below this share of the largest cost is rounding.
constexpr double kNothing = 1e-12;
constexpr double kForbidden = std::numeric_limits<double>::infinity();

}  // namespace

MinCut::MinCut(Index num_nodes)
    : source_(num_nodes),
      sink_(num_nodes + 1),
      inside_(num_nodes, 0),
      outside_(num_nodes, 0),
      first_(num_nodes + 2, -1),
      level_(num_nodes + 2, -1) {}

void MinCut::add_costs(Index node, double inside, double outside) {
  inside_[node] += inside;
  outside_[node] += outside;
}

void MinCut::add_penalty(Index first, Index second, double cost) { add_arc(first, second, cost); }

void MinCut::require(Index first, Index second) { add_arc(first, second, kForbidden); }

void MinCut::add_arc(Index from, Index to, double capacity) {
  arcs_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<Index>(arcs_.size()) - 1;
  arcs_.push_back({from, first_[to], 0});
  first_[to] = static_cast<Index>(arcs_.size()) - 1;
}

double MinCut::solve() {
  double total = 0;
  for (Index node = 0; node < source_; ++node) {
    const double both = std::min(inside_[node], outside_[node]);
    total += both;
    if (outside_[node] > both) add_arc(source_, node, outside_[node] - both);
    if (inside_[node] > both) add_arc(node, sink_, inside_[node] - both);
  }
  while (find_levels()) {
    current_ = first_;
    total += push(source_, kForbidden);
  }
  return total;
}

/// Distances from the source along arcs with capacity left; false if the sink is out of reach.
bool MinCut::find_levels() {
  std::ranges::fill(level_, -1);
  queue_.assign(1, source_);
  level_[source_] = 0;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (Index a = first_[queue_[i]]; a >= 0; a = arcs_[a].next) {
      if (arcs_[a].capacity <= kNothing || level_[arcs_[a].to] >= 0) continue;
      level_[arcs_[a].to] = level_[queue_[i]] + 1;
      queue_.push_back(arcs_[a].to);
    }
  }
  return level_[sink_] >= 0;
}

/// Sends up to `most` from `node` towards the sink. As deep as the longest shortest path, which in
/// these graphs is the length of a run of ops between two kept values.
double MinCut::push(Index node, double most) {
  if (node == sink_) return most;
  double sent = 0;
  for (Index& a = current_[node]; a >= 0; a = arcs_[a].next) {
    const bool leads_on = arcs_[a].capacity > kNothing && level_[arcs_[a].to] == level_[node] + 1;
    if (!leads_on) continue;
    const double part = push(arcs_[a].to, std::min(most - sent, arcs_[a].capacity));
    arcs_[a].capacity -= part;
    arcs_[a ^ 1].capacity += part;
    sent += part;
    if (most - sent <= kNothing) return sent;
  }
  return sent;
}

}  // namespace gradrecomp::plan
