#include "commands/arguments.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bad_input.h"
#include "gradrecomp/plan/plan_file.h"
#include "input/input_file.h"
#include "input/validators.h"
#include "workload/model_catalog.h"

namespace gradrecomp::program {
namespace {

void add_switch(CLI::App& command, const std::string& name, bool& is_on, const std::string& help) {
  command.add_option(name, is_on, help)
      ->check(one_of({"on", "off"}))
      ->type_name("on|off")
      ->default_str(is_on ? "on" : "off");
}

template <class Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

/// Adds an option that is one of `choices`, the first by default.
template <class Choice>
void add_choice(CLI::App& command, const std::string& name, Choice& choice,
                const Choices<Choice>& choices, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [spelling, value] : choices) names.push_back(spelling);
  // CheckedTransformer takes the numbers that stand for choices as well.
  const auto to_number = [choices](std::string& text) -> std::string {
    const auto of_name = [&](const auto& known) { return known.first == text; };
    const auto found = std::ranges::find_if(choices, of_name);
    if (found == choices.end()) return "unknown";
    text = std::to_string(static_cast<int>(found->second));
    return {};
  };
  command.add_option(name, choice, help)
      ->transform(
          must_be(fmt::format("one of {}", fmt::join(names, ", ")), CLI::Validator(to_number, "")))
      ->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->default_str(names.front());
}

}  // namespace

void add_model_arguments(CLI::App& command, WorkloadOptions& options) {
  auto& o = options;
  command.add_option("--model", o.model, fmt::format("One of {}", fmt::join(model_names(), ", ")))
      ->check(one_of(model_names()));
  command.add_option("--image-size", o.image_size, "Pixels a side, for image models (224)")
      ->check(whole_number(32, 1 << 14));
  command.add_option("--sequence", o.sequence, "Tokens a text, for text models (128)")
      ->check(whole_number(1, 512));
  command.add_option("--layers", o.layers, "Layers of a transformer, LSTM or FNO (all)")
      ->check(whole_number(1, 24));
  command.add_option("--device", o.device, "cpu or cuda")->check(one_of({"cpu", "cuda"}));
  command.add_option("--dtype", o.dtype, "float32, bfloat16 or, on cuda, float16")
      ->check(one_of({"float32", "bfloat16", "float16"}));
  command
      .add_option("--autocast", o.autocast,
                  "bfloat16 or float16: mixed precision, in float16 with scaled gradients (none)")
      ->check(one_of({"bfloat16", "float16"}));
  command.add_flag("--channels-last", o.channels_last, "Images and their weights in NHWC");
  command
      .add_option("--data", o.data,
                  "Digits as CSV (.gz) for images, any file for texts; random input without it")
      ->check(file_name());
  command.add_option("--seed", o.seed, "Of weights, random input and dropout")
      ->check(whole_number(0, std::int64_t{1} << 62));
  command.add_option("--grads", o.gradients, "preallocated, or none: counted as activations")
      ->check(one_of({"preallocated", "none"}));
  command
      .add_option_function<int>(
          "--threads", [](int count) { at::set_num_threads(count); },
          "CPU threads (LibTorch's choice)")
      ->check(whole_number(1, 1024));
}

void add_workload_arguments(CLI::App& command, WorkloadOptions& options) {
  constexpr std::int64_t kLargestBatch = 1 << 20;
  add_model_arguments(command, options);
  command.add_option("--batch", options.batch, "Images or texts a step")
      ->check(whole_number(1, kLargestBatch));
}

void add_budget_arguments(CLI::App& command, Options& options) {
  auto& o = options;
  auto* overhead = command.add_option(
      "--max-overhead", o.max_overhead,
      fmt::format("Extra cost as a ratio to the plain step ({})", Options::kDefaultOverhead));
  auto* peak = command.add_option("--max-peak", o.max_peak_bytes,
                                  "Activation bytes instead: 512MiB, 2GiB, ...");
  auto* policy = command.add_option_function<std::string>(
      "--policy", [&o](const std::string& name) { o.policy = name; },
      "A fixed policy instead: every_2, sqrt_n, keep_all, ...");
  overhead->check(nonnegative())->excludes(peak)->excludes(policy);
  peak->transform(byte_size())->excludes(policy);
  policy->check(fixed_policy());
  add_cost_argument(command, o.cost);
  add_switch(command, "--substitutes", o.substitutes,
             "Replay normalisations from their kept statistics");
  add_switch(command, "--offload", o.offload, "Kept activations may go to host memory and back");
  add_choice(command, "--forms", o.forms,
             {{"exact", Forms::exact}, {"lossy_bf16", Forms::lossy_bf16}},
             "lossy_bf16: kept activations may be rounded, and gradients are not plain's");
}

void check_forms(const Options& options) {
  if (options.forms == Forms::exact || !options.offload) return;
  reject("--forms", "lossy_bf16", "exact with --offload on. Leave out one of the two.");
}

CLI::Option* add_plan_argument(CLI::App& command, Options& options) {
  auto* plan = command.add_option_function<std::string>(
      "--plan",
      [&options](const std::string& path) {
        options.plan =
            std::make_shared<const plan::Plan>(load_input({"--plan", path}, plan::load_plan).plan);
      },
      "A plan instead, made for this model by gradrecomp plan --out");
  plan->check(file_name());
  for (const auto* budget : {"--max-overhead", "--max-peak", "--policy"}) {
    plan->excludes(command.get_option(budget));
  }
  return plan;
}

void add_cost_argument(CLI::App& command, plan::CostModel& cost) {
  add_choice(command, "--cost", cost,
             {{"seconds", plan::CostModel::seconds}, {"flops", plan::CostModel::flops}},
             "What overhead counts");
}

CLI::Option* add_file_argument(CLI::App& command, NamedFile& file, const std::string& help) {
  return command.add_option(file.option, file.path, help)->check(file_name());
}

void add_steps_argument(CLI::App& command, std::int64_t& num_steps, const std::string& help,
                        std::int64_t least) {
  constexpr std::int64_t kMostSteps = 1000000;
  command.add_option("--steps", num_steps, help)->check(whole_number(least, kMostSteps));
}

}  // namespace gradrecomp::program
