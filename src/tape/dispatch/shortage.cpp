#include "tape/dispatch/shortage.h"

#include <atomic>

#include "gradrecomp/device/allocations.h"

namespace gradrecomp::tape {
namespace {
constinit thread_local std::int64_t num_shortages = 0;
constinit std::atomic<std::int64_t> num_changes{0};
}  // namespace

AlgorithmWatch::AlgorithmWatch() : num_shortages_(num_shortages) {}

bool AlgorithmWatch::has_changed() {
  if (num_shortages == num_shortages_) return false;
  num_shortages_ = num_shortages;
  ++num_changes;
  return true;
}

std::int64_t num_algorithm_changes() noexcept { return num_changes; }

}  // namespace gradrecomp::tape

void gradrecomp::device::report_shortage() noexcept { ++tape::num_shortages; }
