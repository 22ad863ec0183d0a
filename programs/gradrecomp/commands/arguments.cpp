#include "commands/arguments.h"

#include <ATen/Parallel.h>

#include <memory>
#include <string>

#include "bad_input.h"
#include "gradrecomp/plan/plan_file.h"
#include "input/validators.h"
#include "measure/arm.h"

namespace gradrecomp::program {
namespace {

std::string fixed_policy(const std::string& text) {
  auto arm = parse_arm("--policy", text, plan::CostModel::seconds);
  if (arm.options.policy.empty()) {
    reject("--policy", "name", text,
           "a fixed policy, such as every-2 or sqrt. For a budget pass --max-overhead.");
  }
  return arm.options.policy;
}

void add_switch(CLI::App& command, const std::string& name, bool& is_on, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&is_on](const std::string& text) { is_on = text == "on"; }, help)
      ->transform(one_of({"on", "off"}));
}

}  // namespace

void add_model_arguments(CLI::App& command, WorkloadOptions& options) {
  constexpr std::int64_t kLargestImage = 1 << 14;
  auto& o = options;
  command.add_option("--model", o.model, "One of " + model_names())
      ->check([](const std::string& text) { return find_model(text), std::string(); });
  command.add_option("--image-size", o.image_size, "Pixels a side, for ResNet and ViT (224)")
      ->transform(whole_number({1, kLargestImage}));
  command.add_option("--sequence", o.sequence, "Tokens a text, for BERT (128)")
      ->transform(whole_number());
  command.add_option("--layers", o.layers, "Encoder layers, for BERT and ViT (all)")
      ->transform(whole_number());
  command.add_option("--device", o.device, "cpu or cuda (cpu)");
  command.add_option("--dtype", o.dtype, "float32, bfloat16 or, on cuda, float16 (float32)");
  command.add_option(
      "--autocast", o.autocast,
      "bfloat16 or float16: mixed precision, in float16 with scaled gradients (none)");
  command.add_flag("--channels-last", o.channels_last, "Images and their weights in NHWC");
  command.add_option("--data", o.data,
                     "Digits as CSV (.gz) for images, any file for BERT; random input without it");
  command.add_option("--seed", o.seed, "Of weights, random input and dropout (0)")
      ->transform(whole_number({.least = 0}));
}

void add_workload_arguments(CLI::App& command, WorkloadOptions& options) {
  constexpr std::int64_t kLargestBatch = 1 << 20;
  add_model_arguments(command, options);
  command.add_option("--batch", options.batch, "Images or texts a step (4)")
      ->transform(whole_number({1, kLargestBatch}));
}

void add_budget_arguments(CLI::App& command, Options& options) {
  auto& o = options;
  auto* overhead = command.add_option("--max-overhead", o.max_overhead,
                                      "Extra cost as a ratio to the plain step (0.05)");
  auto* peak = command.add_option("--max-peak", o.max_peak_bytes,
                                  "Activation bytes instead: 512MiB, 2GiB, ...");
  auto* policy = command.add_option_function<std::string>(
      "--policy", [&o](const std::string& text) { o.policy = fixed_policy(text); },
      "A fixed policy instead: every-2, sqrt, keep-all, ...");
  overhead->transform(ratio())->excludes(peak)->excludes(policy);
  peak->transform(byte_size())->excludes(policy);
  add_cost_argument(command, o.cost);
  add_switch(command, "--substitutes", o.substitutes,
             "on or off: replay normalisations from their kept statistics (on)");
  add_switch(command, "--offload", o.offload,
             "on or off: kept activations may go to host memory and back (off)");
}

void add_plan_argument(CLI::App& command, Options& options) {
  auto* plan = command.add_option_function<std::string>(
      "--plan",
      [&options](const std::string& path) {
        options.plan = std::make_shared<const plan::Plan>(plan::load_plan(path).plan);
      },
      "A plan instead, made for this model by gradrecomp plan --out");
  for (const auto* budget : {"--max-overhead", "--max-peak", "--policy"}) {
    plan->excludes(command.get_option(budget));
  }
}

void add_cost_argument(CLI::App& command, plan::CostModel& cost) {
  command
      .add_option_function<std::string>(
          "--cost",
          [&cost](const std::string& text) {
            cost = text == "flops" ? plan::CostModel::flops : plan::CostModel::seconds;
          },
          "What overhead counts: seconds or flops (seconds)")
      ->transform(one_of({"seconds", "flops"}));
}

void add_gradients_argument(CLI::App& command, Gradients& gradients) {
  command
      .add_option_function<std::string>(
          "--grads",
          [&gradients](const std::string& text) {
            gradients = text == "none" ? Gradients::none : Gradients::preallocated;
          },
          "preallocated, or none: counted as activations (preallocated)")
      ->transform(one_of({"preallocated", "none"}));
}

void add_threads_argument(CLI::App& command) {
  constexpr std::int64_t kMostThreads = 1024;
  command
      .add_option_function<int>(
          "--threads", [](int count) { at::set_num_threads(count); },
          "CPU threads (LibTorch's choice)")
      ->transform(whole_number({1, kMostThreads}));
}

}  // namespace gradrecomp::program
