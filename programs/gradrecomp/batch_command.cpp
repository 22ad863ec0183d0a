#include "batch_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "arguments.h"
#include "bad_input.h"
#include "batch_report.h"
#include "batch_study.h"
#include "byte_size.h"
#include "cost_model.h"
#include "number.h"
#include "output_file.h"

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
  add_argument(command, "--max-peak", "Bytes that activations may take: 512MiB, 2GiB, ...",
               [&](const auto& text) { q.request.max_peak_bytes = byte_size("--max-peak", text); });
  command.get_option("--max-peak")->required();
  add_argument(command, "--max-overhead",
               "Most extra cost, as a ratio to the plain step (as much as it takes)",
               [&](const auto& text) { q.request.max_overhead = ratio("--max-overhead", text); });
  add_argument(command, "--cost", "What overhead counts: seconds or flops (seconds)",
               [&](const auto& text) { q.request.cost = parse_cost_model(text); });
  add_argument(command, "--samples-per-second", "Ask too for the least memory that reaches this",
               [&](const auto& text) {
                 q.min_samples_per_second = positive_number("--samples-per-second", text);
               });
}

void add_arguments(CLI::App& command, Arguments& arguments) {
  constexpr std::int64_t kMostSteps = 100000;
  auto& q = arguments.questions;
  add_model_arguments(command, q.setting.workload);
  add_request_arguments(command, q);
  add_argument(command, "--batches", "Batch sizes of the two steps that are profiled (2,4)",
               [&](const auto& text) { set_batches(text, q); });
  add_argument(command, "--steps", "Steps to measure at each batch size found (3)",
               [&](const auto& text) {
                 q.setting.num_steps = whole_number("--steps", text, {1, kMostSteps});
               });
  add_gradients_argument(command, q.setting.gradients);
  add_threads_argument(command);
  add_argument(command, "--json", "File to write the answers to",
               [&](const auto& text) { arguments.json_path = text; });
}

bool is_equal(const BatchTrial& trial) { return trial.bitwise_equal.value_or(true); }

int run_batch(const Arguments& arguments) {
  const NamedFile json{"--json", arguments.json_path};
  check_outputs({json});
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
