#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bad_input.h"
#include "commands/arguments.h"
#include "commands/commands.h"
#include "input/output_file.h"
#include "input/validators.h"
#include "measure/batch_study.h"
#include "report/reports.h"

namespace gradrecomp::program {
namespace {

struct Arguments {
  BatchQuestions questions;
  NamedFile json{"--json"};
};

void set_batches(const std::string& text, BatchQuestions& questions) {
  constexpr std::int64_t kLargest = 1 << 16;
  const auto comma = std::min(text.find(','), text.size());
  const auto small = read_whole_number(text.substr(0, comma));
  const auto large = read_whole_number(text.substr(std::min(comma + 1, text.size())));
  const bool are_read = small && large;
  questions.small_batch = small.value_or(0);
  questions.large_batch = large.value_or(0);
  const bool rise = 0 < questions.small_batch && questions.small_batch < questions.large_batch;
  if (!are_read || !rise || questions.large_batch > kLargest) {
    reject(
        "--batches", text,
        fmt::format("two batch sizes that rise, from 1 to {}, with a comma between, such as 2,4.",
                    kLargest));
  }
}

void add_arguments(CLI::App& command, Arguments& arguments) {
  auto& q = arguments.questions;
  add_model_arguments(command, q.setting.workload);
  command
      .add_option("--max-peak", q.request.max_peak_bytes,
                  "Bytes that activations may take: 512MiB, 2GiB, ...")
      ->transform(byte_size())
      ->required()
      ->default_str("");
  command
      .add_option("--max-overhead", q.request.max_overhead,
                  "Most extra cost, as a ratio to the plain step (as much as it takes)")
      ->check(nonnegative());
  add_cost_argument(command, q.request.cost);
  command
      .add_option("--samples-per-second", q.min_samples_per_second,
                  "Ask too for the least memory that reaches this")
      ->check(positive());
  command.add_option_function<std::string>(
      "--batches", [&](const std::string& text) { set_batches(text, q); },
      "Batch sizes of the two steps that are profiled (2,4)");
  add_steps_argument(command, q.setting.num_steps, "Steps to measure at each batch size found");
  add_file_argument(command, arguments.json, "File to write the answers to");
}

bool is_equal(const BatchAnswer& answer) {
  return std::ranges::all_of(
      answer.trials, [](const BatchTrial& trial) { return trial.bitwise_equal.value_or(true); });
}

int run_batch(const Arguments& arguments) {
  check_outputs({arguments.json}, {{"--data", arguments.questions.setting.workload.data}});
  const auto study = make_batch_study(arguments.questions);
  write_output(arguments.json, batch_json(study));
  fmt::print("{}", batch_table(study));
  return std::ranges::all_of(study.answers, is_equal) ? 0 : 1;
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
