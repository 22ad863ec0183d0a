#include "cost_model.h"

#include "bad_input.h"

namespace gradrecomp::program {

plan::CostModel parse_cost_model(std::string_view name) {
  if (name == "seconds") return plan::CostModel::seconds;
  if (name == "flops") return plan::CostModel::flops;
  reject("--cost", "name", name, "seconds or flops. Pass one of these.");
}

std::string_view to_string(plan::CostModel cost) {
  return cost == plan::CostModel::flops ? "flops" : "seconds";
}

double predicted_overhead(const plan::Plan& plan, plan::CostModel cost) {
  return cost == plan::CostModel::flops ? plan.predicted_overhead_flops
                                        : plan.predicted_overhead_seconds;
}

}  // namespace gradrecomp::program
