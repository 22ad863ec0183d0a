#pragma once

#include <string>
#include <vector>

#include "gradrecomp/options.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::program {

/// The plans made for one profiled step.
struct Study {
  plan::SavedGraph step = {};
  plan::CostModel cost = plan::CostModel::seconds;
  plan::Plan chosen = {};                 ///< for the user's budget or policy
  std::vector<plan::Plan> policies = {};  ///< fixed ones
  std::vector<plan::Plan> front = {};     ///< by rising overhead
  double front_seconds = 0;               ///< that planning the front took
};

/// Plans for `budget`, for the usual fixed policies and `more_policies`, and for the whole front.
/// Searches take `effort`; see plan::Request.
Study make_study(plan::SavedGraph step, const Options& budget, double effort,
                 const std::vector<std::string>& more_policies);

}  // namespace gradrecomp::program
