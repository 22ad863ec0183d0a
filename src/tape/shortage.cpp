#include "gradrecomp/tape/shortage.h"

#include <atomic>

namespace gradrecomp::tape {
namespace {
constinit thread_local std::int64_t num_shortages = 0;
constinit std::atomic<std::int64_t> num_changes{0};
}  // namespace

void report_shortage() noexcept { ++num_shortages; }

AlgorithmWatch::AlgorithmWatch() : num_shortages_(num_shortages) {}

bool AlgorithmWatch::has_changed() {
  if (num_shortages == num_shortages_) return false;
  num_shortages_ = num_shortages;
  ++num_changes;
  return true;
}

std::int64_t num_algorithm_changes() noexcept { return num_changes; }

}  // namespace gradrecomp::tape
