#include "policy_sets.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace gradrecomp::plan {

std::vector<KeptSet> simple_sets(const Graph& graph, int most) {
  std::vector<KeptSet> sets = {keep_all(graph), drop_all(graph), sqrt_n(graph),
                               pointwise_only(graph), selective(graph)};
  std::ranges::move(every_k_sets(graph, most), std::back_inserter(sets));
  return sets;
}

std::vector<Index> spread_counts(Index last, int most) {
  std::vector<Index> counts;
  const Index dense = last <= most ? last : std::max(1, most / 2);
  for (Index k = 1; k <= dense; ++k) counts.push_back(k);
  const double growth = std::pow(static_cast<double>(last) / std::max<Index>(1, dense),
                                 1.0 / std::max<Index>(1, most - dense));
  while (!counts.empty() && counts.back() < last) {
    const auto next = static_cast<Index>(std::ceil(counts.back() * growth));
    counts.push_back(std::clamp(next, counts.back() + 1, last));
  }
  return counts;
}

}  // namespace gradrecomp::plan
