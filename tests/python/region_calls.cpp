// Regions for Python's ctypes, as plain functions: what regions.py calls. None lets an exception
// out; the sentence of one is in failure() instead.
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "gradrecomp/region.h"

namespace {

using gradrecomp::OpenStep;
using gradrecomp::Options;
using gradrecomp::Region;

constexpr std::int64_t kFirstStepAlone = -1;

thread_local std::string last_failure;

/// What `call` returns; null, false or 0 if it throws.
template <typename Call>
auto guarded(Call call) -> decltype(call()) {
  try {
    last_failure.clear();
    return call();
  } catch (const std::exception& error) {
    last_failure = error.what();
    return {};
  }
}

Options options_of(const char* policy, double max_overhead, std::int64_t verify_interval_steps) {
  Options options{.verify = gradrecomp::Verify::never};
  if (verify_interval_steps == kFirstStepAlone) options.verify = gradrecomp::Verify::first_step;
  if (verify_interval_steps > 0) {
    options.verify = gradrecomp::Verify::every_n_steps;
    options.verify_interval_steps = static_cast<int>(verify_interval_steps);
  }
  if (std::string_view(policy).empty()) {
    options.max_overhead = max_overhead;
    options.cost = gradrecomp::plan::CostModel::flops;
  } else {
    options.policy = policy;
  }
  return options;
}

}  // namespace

extern "C" {

/// The sentence of the last call on this thread, empty if it did what it should.
const char* failure() { return last_failure.c_str(); }

/// A region of a fixed policy or, where that is empty, of a budget in FLOPs. It verifies every so
/// many steps; 0: never, -1: the first step alone.
Region* region_new(const char* policy, double max_overhead, std::int64_t verify_interval_steps) {
  return guarded(
      [&] { return new Region(options_of(policy, max_overhead, verify_interval_steps)); });
}

void region_delete(Region* region) { delete region; }

/// A step of `region` or, where that is null, one that drops everything, as checkpoint()'s.
OpenStep* step_open(Region* region) {
  return guarded([&] {
    return new OpenStep(region == nullptr ? gradrecomp::detail::open_dropped() : region->open());
  });
}

/// Ends the forward pass of a step.
bool step_close(OpenStep* step) {
  return guarded([&] {
    step->close();
    return true;
  });
}

/// Gives up a step that was not closed.
void step_delete(OpenStep* step) { delete step; }

bool region_followed_plan(const Region* region) { return region->last_step().followed_plan; }

std::int64_t region_replays(const Region* region) { return region->last_step().num_replayed_ops; }

std::int64_t region_ops(const Region* region) { return region->last_step().num_ops; }

/// The brief report, which lasts until the next call on this thread.
const char* region_report(const Region* region) {
  thread_local std::string report;
  return guarded([&] {
    report = region->brief_report();
    return report.c_str();
  });
}

}  // extern "C"
