#include "cost_model.h"

namespace gradrecomp::program {

std::string_view to_string(plan::CostModel cost) {
  return cost == plan::CostModel::flops ? "flops" : "seconds";
}

double predicted_overhead(const plan::Plan& plan, plan::CostModel cost) {
  return cost == plan::CostModel::flops ? plan.predicted_overhead_flops
                                        : plan.predicted_overhead_seconds;
}

}  // namespace gradrecomp::program
