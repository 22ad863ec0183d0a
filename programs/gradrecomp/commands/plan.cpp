#include <fmt/format.h>
#include <torch/cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "bad_input.h"
#include "commands/arguments.h"
#include "commands/commands.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/plan_file.h"
#include "input/input_file.h"
#include "input/output_file.h"
#include "input/validators.h"
#include "measure/study.h"
#include "measure/training_step.h"
#include "progress.h"
#include "report/reports.h"

namespace gradrecomp::program {
namespace {

struct PlanOptions {
  WorkloadOptions workload;
  Options budget;
  double effort = 1;
  std::vector<std::string> compared;
  NamedFile graph{"--graph"};
  NamedFile save_graph{"--save-graph"};
  NamedFile front{"--front"};
  NamedFile svg{"--svg"};
  NamedFile out{"--out"};
};

std::vector<std::string> policies_in(const std::vector<std::string>& lists) {
  std::vector<std::string> policies = names_in(lists);
  for (std::string& name : policies) {
    const std::string fault = fixed_policy()(name);
    if (!fault.empty()) throw CLI::ValidationError("--compare", fault);
  }
  return policies;
}

void add_arguments(CLI::App& command, PlanOptions& options) {
  constexpr double kMostEffort = 1000;
  auto& o = options;
  add_workload_arguments(command, o.workload);
  add_budget_arguments(command, o.budget);
  command.add_option_function<std::vector<std::string>>(
      "--compare", [&o](const std::vector<std::string>& lists) { o.compared = policies_in(lists); },
      "More fixed policies: every_8,...");
  command
      .add_option("--effort", o.effort,
                  "How long to search: 1 is a second or two, 10 ten times that, 0 not at all")
      ->check(nonnegative(kMostEffort));
  auto* graph = add_file_argument(command, o.graph,
                                  "A step profiled elsewhere, by --save-graph, instead of a model");
  // They say how a step is taken, but this one has been.
  for (const auto* option : {"--model", "--batch", "--image-size", "--sequence", "--layers",
                             "--device", "--dtype", "--autocast", "--channels-last", "--data",
                             "--seed", "--grads", "--threads", "--substitutes"}) {
    graph->excludes(command.get_option(option));
  }
  add_file_argument(command, o.save_graph, "File to write the profiled step to");
  add_file_argument(command, o.out, "File to write the plan to, for bench and train --plan");
  add_file_argument(command, o.front, "File to write all points of the front to, as JSON");
  add_file_argument(command, o.svg, "File to draw the front in");
}

/// How fast a device copies and rounds is measured.
void check_device_is_here(const Options& budget, const plan::SavedGraph& step) {
  const bool rounds = budget.forms != Forms::exact;
  const std::string& device = step.origin.device;
  const bool is_here = device == "cpu" || (device == "cuda" && torch::cuda::is_available());
  if (is_here || !(rounds || budget.offload)) return;
  reject(rounds ? "--forms" : "--offload", rounds ? "lossy_bf16" : "on",
         fmt::format("left out, as the step of --graph ran on {}, whose speed cannot be measured "
                     "here.",
                     device.empty() ? "a device that it does not name" : device));
}

plan::SavedGraph step_of(const PlanOptions& options) {
  if (!options.graph.path.empty()) {
    auto step = load_input(options.graph, plan::load_graph);
    check_device_is_here(options.budget, step);
    return step;
  }
  show_progress("building the model");
  Workload workload(options.workload);
  return profile_step(workload, options.budget.substitutes);
}

int run_plan(const PlanOptions& options) {
  check_forms(options.budget);
  check_outputs({options.save_graph, options.out, options.front, options.svg},
                {options.graph, {"--data", options.workload.data}});
  auto step = step_of(options);
  write_output(options.save_graph, plan::graph_text(step));
  const auto study = make_study(std::move(step), options.budget, options.effort, options.compared);
  write_output(options.out, plan::plan_text({study.chosen, study.step.origin}));
  write_output(options.front, study_json(study));
  write_output(options.svg, front_picture(study));
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
