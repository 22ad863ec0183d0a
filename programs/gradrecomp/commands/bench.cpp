#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/arguments.h"
#include "commands/commands.h"
#include "input/output_file.h"
#include "input/validators.h"
#include "measure/arm.h"
#include "measure/arm_runner.h"
#include "report/reports.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

struct BenchOptions {
  WorkloadOptions workload;
  Options budget;
  std::vector<Arm> compared;
  NamedFile plan{"--plan"};
  NamedFile json{"--json"};
  std::int64_t num_rounds = 3;
  std::optional<std::int64_t> cap_bytes;
  bool brief = false;
  bool full = false;
};

void add_arguments(CLI::App& command, BenchOptions& options) {
  auto& o = options;
  add_workload_arguments(command, o.workload);
  add_budget_arguments(command, o.budget);
  add_plan_argument(command, o.budget)->each([&o](const std::string& path) { o.plan.path = path; });
  command.add_option_function<std::vector<std::string>>(
      "--compare",
      [&o](const std::vector<std::string>& lists) {
        for (const auto& arm : names_in(lists)) o.compared.push_back(parse_arm(arm));
      },
      "More arms: keep_all,drop_all,every_2,sqrt_n,pointwise_only,18%,...");
  add_steps_argument(command, o.num_rounds, "Rounds of four steps an arm");
  command
      .add_option("--memory-cap", o.cap_bytes,
                  "Leave tensors only so many bytes of the GPU: 10GiB, ...")
      ->transform(byte_size());
  add_file_argument(command, o.json, "File to write one object an arm to, as they come");
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

/// `arms` after plain. Seconds are from paired ratios, so that arms compare although they ran at
/// different times.
std::vector<ArmResult> after_plain(const ArmRunner& runner, const std::vector<ArmResult>& arms) {
  std::vector<ArmResult> results{runner.plain()};
  results.insert(results.end(), arms.begin(), arms.end());
  for (ArmResult& result : results) {
    result.step_seconds = results.front().step_seconds * result.time_ratio.median;
  }
  return results;
}

/// Hands the results so far to `note` after each arm.
std::vector<ArmResult> run_arms(Workload& workload, const BenchOptions& options,
                                const std::function<void(const std::vector<ArmResult>&)>& note) {
  ArmRunner runner(workload, options.num_rounds);
  auto compared = options.compared;
  for (Arm& arm : compared) {
    arm.options.cost = options.budget.cost;
    arm.options.substitutes = options.budget.substitutes;
    arm.options.offload = options.budget.offload;
    arm.options.forms = options.budget.forms;
  }
  std::vector<ArmResult> arms;
  std::vector<ArmResult> results;
  for (const Arm& arm : arms_to_run(compared, main_arm(options.budget))) {
    arms.push_back(runner.run(arm));
    results = after_plain(runner, arms);
    note(results);
  }
  return results;
}

int run_bench(const BenchOptions& options) {
  check_forms(options.budget);
  check_outputs({options.json}, {options.plan, {"--data", options.workload.data}});
  at::Tensor ballast;
  if (options.cap_bytes) {
    ballast = memory_beyond(*options.cap_bytes, open_device(options.workload.device));
  }
  Workload workload(options.workload);
  const BenchSetting setting{.workload = workload.options(),
                             .description = workload.description(),
                             .cost = options.budget.cost,
                             .num_rounds = options.num_rounds};
  // Arm by arm, so that what is cut off leaves those that it has run.
  const auto results = run_arms(workload, options, [&](const std::vector<ArmResult>& so_far) {
    write_output(options.json, bench_json(setting, so_far));
  });
  fmt::print("{}", bench_table(setting, results));
  print_reports(options, results);
  const bool differs = std::ranges::any_of(results, [&](const ArmResult& result) {
    return equality(result, results.front()) == kDifferent;
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
