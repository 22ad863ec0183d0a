#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bad_input.h"
#include "commands/arguments.h"
#include "commands/commands.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/plan_file.h"
#include "input/output_file.h"
#include "measure/arm.h"
#include "measure/profiled_step.h"
#include "measure/study.h"
#include "report/front_picture.h"
#include "report/study_report.h"
#include "workload/gradients.h"

namespace gradrecomp::program {
namespace {

struct PlanOptions {
  WorkloadOptions workload;
  Options budget;
  Gradients gradients = Gradients::preallocated;
  std::string compare;
  std::string graph_path;
  std::string save_graph_path;
  std::string front_path;
  std::string svg_path;
  std::string plan_path;
};

void add_arguments(CLI::App& command, PlanOptions& options) {
  auto& o = options;
  add_workload_arguments(command, o.workload);
  add_gradients_argument(command, o.gradients);
  add_budget_arguments(command, o.budget);
  add_threads_argument(command);
  command.add_option("--compare", o.compare, "More fixed policies: every-8,...");
  auto* graph = command.add_option(
      "--graph", o.graph_path, "A step profiled elsewhere, by --save-graph, instead of a model");
  // They say how a step is taken, but this one has been.
  for (const auto* option : {"--model", "--batch", "--image-size", "--sequence", "--layers",
                             "--device", "--dtype", "--autocast", "--channels-last", "--data",
                             "--seed", "--grads", "--threads", "--substitutes"}) {
    graph->excludes(command.get_option(option));
  }
  command.add_option("--save-graph", o.save_graph_path, "File to write the profiled step to");
  command.add_option("--out", o.plan_path, "File to write the plan to, for bench and train --plan");
  command.add_option("--front", o.front_path, "File to write all points of the front to, as JSON");
  command.add_option("--svg", o.svg_path, "File to draw the front in");
}

void check_files(const PlanOptions& options) {
  check_outputs({{"--save-graph", options.save_graph_path},
                 {"--out", options.plan_path},
                 {"--front", options.front_path},
                 {"--svg", options.svg_path}},
                {{"--graph", options.graph_path}, {"--data", options.workload.data}});
}

std::vector<std::string> policies_of(const PlanOptions& options) {
  auto policies = usual_policies();
  for (const Arm& arm : parse_arms("--compare", options.compare, options.budget.cost)) {
    if (arm.options.policy.empty()) {
      reject("--compare", "arm", arm.name,
             "a fixed policy, such as every-8; the front has the overheads. Leave it out.");
    }
    policies.push_back(arm.options.policy);
  }
  return policies;
}

plan::SavedGraph step_of(const PlanOptions& options, Progress& progress) {
  if (!options.graph_path.empty()) return plan::load_graph(options.graph_path);
  progress.show("building the model");
  Workload workload(options.workload);
  return profile_step(workload,
                      {.gradients = options.gradients, .substitutes = options.budget.substitutes},
                      progress);
}

void write_files(const PlanOptions& options, const Study& study) {
  const auto& origin = study.step.origin;
  write_output({"--out", options.plan_path}, plan::plan_text({study.chosen, origin}));
  write_output({"--front", options.front_path}, study_json(study));
  write_output({"--svg", options.svg_path}, front_picture(study));
}

int run_plan(const PlanOptions& options) {
  check_files(options);
  const auto policies = policies_of(options);
  Progress progress;
  auto step = step_of(options, progress);
  write_output({"--save-graph", options.save_graph_path}, plan::graph_text(step));
  const auto study = make_study(std::move(step), options.budget, policies, progress);
  write_files(options, study);
  fmt::print("{}", study_table(study));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("plan", "Profile one step of a model, plan it, and show what is possible");
  const auto options = std::make_shared<PlanOptions>();
  add_arguments(*command, *options);
  command->final_callback([options, &status] { status = run_plan(*options); });
}

}  // namespace gradrecomp::program
