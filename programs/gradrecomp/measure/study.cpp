#include "measure/study.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "gradrecomp/host_link.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/policies.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

plan::Request request_of(const Options& budget, const std::string& device) {
  plan::Request request{
      .max_peak_bytes = budget.max_peak_bytes, .cost = budget.cost, .policy = budget.policy};
  if (budget.policy.empty() && !budget.max_peak_bytes) {
    request.max_overhead = budget.max_overhead.value_or(0.05);
  }
  if (budget.offload) request.host_link = measured_host_link(open_device(device));
  return request;
}

}  // namespace

std::vector<std::string> usual_policies() {
  return {"keep_all", "drop_all",    "every_1",        "every_2",   "every_4",
          "sqrt_n",   "chen_greedy", "pointwise_only", "selective", "nested"};
}

bool has_proven_peaks(const Study& study) {
  return std::any_of(study.front.begin(), study.front.end(),
                     [](const plan::Plan& plan) { return plan.proven_peak_bytes > 0; });
}

Study make_study(plan::SavedGraph step, const Options& budget,
                 const std::vector<std::string>& policies, Progress& progress) {
  Study study;
  study.step = std::move(step);
  study.cost = budget.cost;
  const auto& graph = study.step.graph;
  progress.show("planning for the budget");
  study.chosen = plan::make_plan(graph, request_of(budget, study.step.origin.device));
  for (const auto& policy : policies) {
    study.policies.push_back(plan::make_plan(graph, {.cost = budget.cost, .policy = policy}));
  }
  progress.show("planning the front");
  const auto start = std::chrono::steady_clock::now();
  study.front = plan::make_front(graph, {.cost = budget.cost});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  study.front_seconds = elapsed.count();
  progress.clear();
  return study;
}

}  // namespace gradrecomp::program
