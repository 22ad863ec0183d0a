#include "front.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gradrecomp::plan {

bool Front::wants(const Candidate& candidate) const {
  const auto dearer = std::ranges::upper_bound(candidates_, candidate.cost(), {}, &Candidate::cost);
  if (dearer == candidates_.begin()) return true;
  return candidate.result.peak_bytes < std::prev(dearer)->result.peak_bytes;
}

bool Front::add(Candidate candidate) {
  if (!wants(candidate)) return false;
  const auto begin = std::ranges::lower_bound(candidates_, candidate.cost(), {}, &Candidate::cost);
  auto end = begin;
  while (end != candidates_.end() && end->result.peak_bytes >= candidate.result.peak_bytes) ++end;
  if (begin == end) {
    candidates_.insert(begin, std::move(candidate));
  } else {
    *begin = std::move(candidate);
    candidates_.erase(begin + 1, end);
  }
  return true;
}

std::size_t Front::last_within(double max_overhead) const {
  const auto above = std::ranges::upper_bound(candidates_, max_overhead, {}, &Candidate::overhead);
  return static_cast<std::size_t>(above - candidates_.begin()) - 1;  // kNone before the first
}

std::size_t Front::first_within(std::int64_t max_peak_bytes) const {
  const auto first = std::ranges::find_if(
      candidates_, [&](const Candidate& c) { return c.result.peak_bytes <= max_peak_bytes; });
  if (first == candidates_.end()) return kNone;
  return static_cast<std::size_t>(first - candidates_.begin());
}

}  // namespace gradrecomp::plan
