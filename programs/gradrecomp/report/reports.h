#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "gradrecomp/plan/verify.h"
#include "measure/arm_runner.h"
#include "measure/batch_study.h"
#include "measure/study.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

/// What all arms of a run share, for its reports.
struct BenchSetting {
  WorkloadOptions workload = {};
  std::string description = {};
  plan::CostModel cost = plan::CostModel::seconds;
  std::int64_t num_rounds = 0;
};

/// How all steps of `arm` compare with the first plain step, bit for bit: "yes", kDifferent or, if
/// plain steps differ too, so that it says nothing of the arm, "plain itself differs". Gradients of
/// an arm that may round are not compared.
std::string_view equality(const ArmResult& arm, const ArmResult& plain);
inline constexpr std::string_view kDifferent = "NO";

/// The table of all arms, plain first, under lines that name the setting.
std::string bench_table(const BenchSetting& setting, const std::vector<ArmResult>& results);

/// A JSON list with one object an arm.
std::string bench_json(const BenchSetting& setting, const std::vector<ArmResult>& results);

/// What is predicted for every question, and what real steps did.
std::string batch_table(const BatchStudy& study);

/// The same as JSON.
std::string batch_json(const BatchStudy& study);

/// The table of the fixed policies, of points along the front and of the chosen plan.
std::string study_table(const Study& study);

/// The same as JSON, with every point of the front.
std::string study_json(const Study& study);

/// What a plan says of itself, and what was found.
std::string claims_table(const plan::SavedPlan& saved, const std::vector<plan::Claim>& claims);

/// The front of a study as an SVG picture: predicted peak, as a share of plain, against overhead.
///
/// Fixed policies are labelled marks; those that cost more than the picture shows lie on its right
/// edge. Peaks proven impossible are shaded.
std::string front_picture(const Study& study);

}  // namespace gradrecomp::program
