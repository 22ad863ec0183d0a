#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bad_input.h"
#include "commands/arguments.h"
#include "commands/commands.h"
#include "format.h"
#include "input/output_file.h"
#include "input/validators.h"
#include "measure/arm_runner.h"
#include "measure/given_plan.h"
#include "report/bench_report.h"
#include "report/equality.h"
#include "workload/device.h"
#include "workload/memory_cap.h"

namespace gradrecomp::program {
namespace {

struct BenchOptions {
  WorkloadOptions workload;
  Options budget;
  std::string compare;
  std::string json_path;
  Gradients gradients = Gradients::preallocated;
  std::int64_t num_rounds = 3;
  std::optional<std::int64_t> cap_bytes;
  bool brief = false;
  bool full = false;
};

void add_arguments(CLI::App& command, BenchOptions& options) {
  auto& o = options;
  add_workload_arguments(command, o.workload);
  add_budget_arguments(command, o.budget);
  add_plan_argument(command, o.budget);
  add_threads_argument(command);
  command.add_option("--compare", o.compare,
                     "More arms: keep-all,drop-all,every-2,sqrt,pointwise-only,18%,...");
  command.add_option("--steps", o.num_rounds, "Rounds of four steps an arm (3)")
      ->transform(whole_number({1, kMostSteps}));
  add_gradients_argument(command, o.gradients);
  command
      .add_option("--memory-cap", o.cap_bytes,
                  "Leave tensors only so many bytes of the GPU: 10GiB, ...")
      ->transform(byte_size());
  command.add_option("--json", o.json_path, "File to write one object an arm to");
  auto* brief = command.add_flag("--brief", o.brief, "No table of stages");
  command.add_flag("--full", o.full, "A table of stages for every arm")->excludes(brief);
}

void print_reports(const BenchOptions& options, const std::vector<ArmResult>& results) {
  for (std::size_t i = 1; i < results.size(); ++i) {
    const bool last = i + 1 == results.size();
    if (!last && !options.full) continue;
    fmt::print("\n{}\n", options.brief ? results[i].brief_report : results[i].full_report);
  }
}

std::vector<ArmResult> run_arms(Workload& workload, const BenchOptions& options) {
  Progress progress;
  ArmRunner runner(workload,
                   {.num_rounds = options.num_rounds,
                    .gradients = options.gradients,
                    .seed = options.workload.seed},
                   progress);
  auto compared = parse_arms("--compare", options.compare, options.budget.cost);
  for (Arm& arm : compared) {
    arm.options.substitutes = options.budget.substitutes;
    arm.options.offload = options.budget.offload;
  }
  std::vector<ArmResult> results(1);
  for (const Arm& arm : arms_to_run(compared, main_arm(options.budget))) {
    results.push_back(runner.run(arm));
  }
  results.front() = runner.plain();
  // From paired ratios, so that arms compare although they ran at different times.
  for (ArmResult& result : results) {
    result.step_seconds = results.front().step_seconds * result.time_ratio.median;
  }
  return results;
}

int run_bench(BenchOptions options) {
  if (main_arm(options.budget).name == "max_overhead" && !options.budget.max_overhead) {
    options.budget.max_overhead = 0.05;
  }
  parse_arms("--compare", options.compare, options.budget.cost);  // before anything takes time
  const NamedFile json{"--json", options.json_path};
  check_outputs({json}, {{"--data", options.workload.data}});
  std::optional<MemoryCap> cap;
  if (options.cap_bytes) cap.emplace(open_device(options.workload.device), *options.cap_bytes);
  Workload workload(options.workload);
  const auto results = run_arms(workload, options);
  const BenchSetting setting{.workload = workload.options(),
                             .description = workload.description(),
                             .gradients = options.gradients,
                             .cost = options.budget.cost,
                             .num_rounds = options.num_rounds,
                             .num_threads = at::get_num_threads()};
  write_output(json, bench_json(setting, results));
  fmt::print("{}", bench_table(setting, results));
  print_reports(options, results);
  const bool plain_equal = results.front().bitwise_equal;
  const bool differs = std::any_of(results.begin(), results.end(), [&](const ArmResult& result) {
    return equality(result.bitwise_equal, plain_equal) == Equality::no;
  });
  return differs ? 1 : 0;
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("bench", "Measure a model's training step under several plans");
  const auto options = std::make_shared<BenchOptions>();
  add_arguments(*command, *options);
  command->final_callback([options, &status] { status = run_bench(*options); });
}

}  // namespace gradrecomp::program
