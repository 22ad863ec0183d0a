#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/plan/plan.h"
#include "measure/arm_runner.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// What all arms of a run share, for its reports.
struct BenchSetting {
  WorkloadOptions workload;
  std::string description;
  Gradients gradients = Gradients::preallocated;
  plan::CostModel cost = plan::CostModel::seconds;
  std::int64_t num_rounds = 0;
  int num_threads = 0;
};

/// The table of all arms, plain first, under lines that name the setting.
std::string bench_table(const BenchSetting& setting, const std::vector<ArmResult>& results);

/// A JSON list with one object an arm.
std::string bench_json(const BenchSetting& setting, const std::vector<ArmResult>& results);

}  // namespace gradrecomp::program
