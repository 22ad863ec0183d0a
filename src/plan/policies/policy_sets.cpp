#include "policy_sets.h"

#include <algorithm>

namespace gradrecomp::plan {

std::vector<Index> spread_counts(Index last, int most) {
  std::vector<Index> counts;
  const Index dense = last <= most ? last : most / 2;
  for (Index k = 1; k <= dense; ++k) counts.push_back(k);
  while (!counts.empty() && counts.back() < last) {
    counts.push_back(std::min(last, counts.back() + std::max<Index>(1, counts.back() / 8)));
  }
  return counts;
}

}  // namespace gradrecomp::plan
