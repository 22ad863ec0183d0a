#include "measure/study.h"

#include <chrono>
#include <utility>

#include "gradrecomp/host_link.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/prove_further.h"
#include "gradrecomp/rounding_speed.h"
#include "progress.h"
#include "workload/device.h"

namespace gradrecomp::program {

Study make_study(plan::SavedGraph step, const Options& budget, double effort,
                 const std::vector<std::string>& more_policies) {
  Study study{.step = std::move(step), .cost = budget.cost};
  const auto& graph = study.step.graph;
  show_progress("planning for the budget");
  plan::Request request = request_of(budget);
  request.effort = effort;
  const auto device = [&] { return open_device(study.step.origin.device); };
  if (budget.offload) request.host_link = measured_host_link(device());
  if (budget.forms == Forms::lossy_bf16) {
    request.bytes_rounded_per_second = measured_rounding_speed(device());
  }
  study.chosen = plan::make_plan(graph, request);
  show_progress("proving how good the plan is");
  study.chosen = plan::prove_further(graph, std::move(study.chosen));
  std::vector<std::string> policies{"keep_all",  "drop_all", "every_1",     "every_2",
                                    "every_4",   "sqrt_n",   "chen_greedy", "pointwise_only",
                                    "selective", "nested"};
  policies.insert(policies.end(), more_policies.begin(), more_policies.end());
  for (const auto& policy : policies) {
    study.policies.push_back(plan::make_plan(graph, {.cost = budget.cost, .policy = policy}));
  }
  show_progress("planning the front");
  const auto start = std::chrono::steady_clock::now();
  study.front = plan::make_front(graph, {.cost = budget.cost, .effort = effort});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  study.front_seconds = elapsed.count();
  clear_progress();
  return study;
}

}  // namespace gradrecomp::program
