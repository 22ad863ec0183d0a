#include "front.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gradrecomp::plan {
namespace {

/// `a` is at least as good as `b` in everything.
bool covers(const Candidate& a, const Candidate& b) {
  return a.result.peak_bytes <= b.result.peak_bytes && a.overhead <= b.overhead &&
         a.total <= b.total;
}

}  // namespace

void Front::add(Candidate candidate) {
  const auto is_covered = [&](const Candidate& other) { return covers(other, candidate); };
  if (std::ranges::any_of(candidates_, is_covered)) return;
  std::erase_if(candidates_, [&](const Candidate& other) { return covers(candidate, other); });
  candidates_.push_back(std::move(candidate));
}

const Candidate* Front::least_peak(double max_overhead) const {
  const Candidate* best = nullptr;
  const auto key = [](const Candidate& c) { return std::tuple(c.result.peak_bytes, c.total); };
  for (const Candidate& c : candidates_) {
    if (c.overhead > max_overhead) continue;
    if (best == nullptr || key(c) < key(*best)) best = &c;
  }
  return best;
}

const Candidate* Front::least_total(std::int64_t max_peak_bytes) const {
  const Candidate* best = nullptr;
  const auto key = [](const Candidate& c) { return std::tuple(c.total, c.result.peak_bytes); };
  for (const Candidate& c : candidates_) {
    if (c.result.peak_bytes > max_peak_bytes) continue;
    if (best == nullptr || key(c) < key(*best)) best = &c;
  }
  return best;
}

}  // namespace gradrecomp::plan
