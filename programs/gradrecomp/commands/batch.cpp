#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bad_input.h"
#include "commands/arguments.h"
#include "commands/commands.h"
#include "cost_model.h"
#include "format.h"
#include "input/output_file.h"
#include "input/validators.h"
#include "measure/batch_study.h"
#include "report/batch_report.h"

namespace gradrecomp::program {
namespace {

struct Arguments {
  BatchQuestions questions;
  std::string json_path;
};

void set_batches(const std::string& text, BatchQuestions& questions) {
  constexpr Range kRange{1, 1 << 16};
  const auto comma = text.find(',');
  const auto read = [&](const std::string& part) {
    return read_whole_number(part, kRange).value_or(0);
  };
  const auto small = read(text.substr(0, comma));
  const auto large = comma == std::string::npos ? 0 : read(text.substr(comma + 1));
  if (small == 0 || small >= large) {
    reject("--batches", "value", text,
           fmt::format("two batch sizes that rise, from {} to {}, with a comma between. Pass for "
                       "example 2,4.",
                       kRange.least, kRange.most));
  }
  questions.small_batch = small;
  questions.large_batch = large;
}

void add_request_arguments(CLI::App& command, BatchQuestions& questions) {
  auto& q = questions;
  command
      .add_option("--max-peak", q.request.max_peak_bytes,
                  "Bytes that activations may take: 512MiB, 2GiB, ...")
      ->transform(byte_size())
      ->required();
  command
      .add_option("--max-overhead", q.request.max_overhead,
                  "Most extra cost, as a ratio to the plain step (as much as it takes)")
      ->transform(ratio());
  add_cost_argument(command, q.request.cost);
  command
      .add_option("--samples-per-second", q.min_samples_per_second,
                  "Ask too for the least memory that reaches this")
      ->transform(positive());
}

void add_arguments(CLI::App& command, Arguments& arguments) {
  auto& q = arguments.questions;
  add_model_arguments(command, q.setting.workload);
  add_request_arguments(command, q);
  command.add_option_function<std::string>(
      "--batches", [&](const std::string& text) { set_batches(text, q); },
      "Batch sizes of the two steps that are profiled (2,4)");
  command
      .add_option("--steps", q.setting.num_steps, "Steps to measure at each batch size found (3)")
      ->transform(whole_number({1, kMostSteps}));
  add_gradients_argument(command, q.setting.gradients);
  add_threads_argument(command);
  command.add_option("--json", arguments.json_path, "File to write the answers to");
}

bool is_equal(const BatchTrial& trial) { return trial.bitwise_equal.value_or(true); }

int run_batch(const Arguments& arguments) {
  const NamedFile json{"--json", arguments.json_path};
  check_outputs({json}, {{"--data", arguments.questions.setting.workload.data}});
  Progress progress;
  const auto study = make_batch_study(arguments.questions, progress);
  write_output(json, batch_json(study));
  fmt::print("{}", batch_table(study));
  return std::all_of(study.answers.begin(), study.answers.end(),
                     [](const BatchAnswer& answer) {
                       return std::all_of(answer.trials.begin(), answer.trials.end(), is_equal);
                     })
             ? 0
             : 1;
}

}  // namespace

void add_batch_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("batch", "Find the batch size that makes most of a memory budget");
  const auto arguments = std::make_shared<Arguments>();
  add_arguments(*command, *arguments);
  command->final_callback([arguments, &status] { status = run_batch(*arguments); });
}

}  // namespace gradrecomp::program
