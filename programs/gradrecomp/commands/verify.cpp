#include "gradrecomp/plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "commands/arguments.h"
#include "commands/commands.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/plan_file.h"
#include "input/input_file.h"
#include "report/reports.h"

namespace gradrecomp::program {
namespace {

struct VerifyOptions {
  NamedFile plan{"--plan"};
  NamedFile graph{"--graph"};
};

int run_verify(const VerifyOptions& options) {
  const auto saved = load_input(options.plan, plan::load_plan);
  const auto step = load_input(options.graph, plan::load_graph);
  const auto claims =
      load_input(options.plan, [&](const auto&) { return plan::verify(step.graph, saved.plan); });
  fmt::print("{}", claims_table(saved, claims));
  return std::ranges::all_of(claims, &plan::Claim::holds) ? 0 : 1;
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "verify", "Check what a plan file says of itself, its proofs included, against its step");
  const auto options = std::make_shared<VerifyOptions>();
  add_file_argument(*command, options->plan, "A plan, written by gradrecomp plan --out")
      ->required();
  add_file_argument(*command, options->graph, "Its step, written by gradrecomp plan --save-graph")
      ->required();
  command->final_callback([options, &status] { status = run_verify(*options); });
}

}  // namespace gradrecomp::program
