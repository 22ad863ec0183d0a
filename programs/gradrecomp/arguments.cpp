#include "arguments.h"

#include <ATen/Parallel.h>

#include <utility>

#include "arm.h"
#include "bad_input.h"
#include "byte_size.h"
#include "cost_model.h"
#include "number.h"

namespace gradrecomp::program {
namespace {

constexpr std::int64_t kLargestBatch = 1 << 20;
constexpr std::int64_t kLargestImage = 1 << 14;
constexpr std::int64_t kMostThreads = 1024;

std::string fixed_policy(std::string_view text) {
  auto arm = parse_arm("--policy", text, plan::CostModel::seconds);
  if (arm.options.policy.empty()) {
    reject("--policy", "name", text,
           "a fixed policy, such as every-2 or sqrt. For a budget pass --max-overhead.");
  }
  return arm.options.policy;
}

bool is_on(std::string_view option, std::string_view text) {
  if (text != "on" && text != "off") reject(option, "value", text, "on or off.");
  return text == "on";
}

}  // namespace

void add_argument(CLI::App& command, const std::string& name, const std::string& help,
                  std::function<void(const std::string&)> set) {
  command.add_option_function<std::string>(name, std::move(set), help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("VALUE");
}

void add_model_arguments(CLI::App& command, WorkloadOptions& options) {
  auto& o = options;
  add_argument(command, "--model", "One of " + model_names(),
               [&](const auto& text) { o.model = find_model(text).name; });
  add_argument(command, "--image-size", "Pixels a side, for ResNet and ViT (224)",
               [&](const auto& text) {
                 o.image_size = whole_number("--image-size", text, {1, kLargestImage});
               });
  add_argument(command, "--sequence", "Tokens a text, for BERT (128)",
               [&](const auto& text) { o.sequence = whole_number("--sequence", text); });
  add_argument(command, "--layers", "Encoder layers, for BERT and ViT (all)",
               [&](const auto& text) { o.layers = whole_number("--layers", text); });
  add_argument(command, "--device", "cpu or cuda (cpu)",
               [&](const auto& text) { o.device = text; });
  add_argument(command, "--dtype", "float32, bfloat16 or, on cuda, float16 (float32)",
               [&](const auto& text) { o.dtype = text; });
  add_argument(command, "--autocast",
               "bfloat16 or float16: mixed precision, in float16 with scaled gradients (none)",
               [&](const auto& text) { o.autocast = text; });
  command.add_flag("--channels-last", o.channels_last, "Images and their weights in NHWC");
  add_argument(command, "--data",
               "Digits as CSV (.gz) for images, any file for BERT; random input without it",
               [&](const auto& text) { o.data = text; });
  add_argument(command, "--seed", "Of weights, random input and dropout (0)",
               [&](const auto& text) { o.seed = whole_number("--seed", text, {.least = 0}); });
}

void add_workload_arguments(CLI::App& command, WorkloadOptions& options) {
  add_model_arguments(command, options);
  add_argument(command, "--batch", "Images or texts a step (4)", [&](const auto& text) {
    options.batch = whole_number("--batch", text, {1, kLargestBatch});
  });
}

void add_budget_arguments(CLI::App& command, Options& options) {
  auto& o = options;
  add_argument(command, "--max-overhead", "Extra cost as a ratio to the plain step (0.05)",
               [&](const auto& text) { o.max_overhead = ratio("--max-overhead", text); });
  add_argument(command, "--max-peak", "Activation bytes instead: 512MiB, 2GiB, ...",
               [&](const auto& text) { o.max_peak_bytes = byte_size("--max-peak", text); });
  add_argument(command, "--policy", "A fixed policy instead: every-2, sqrt, keep-all, ...",
               [&](const auto& text) { o.policy = fixed_policy(text); });
  add_argument(command, "--cost", "What --max-overhead counts: seconds or flops (seconds)",
               [&](const auto& text) { o.cost = parse_cost_model(text); });
  add_argument(command, "--substitutes",
               "on or off: replay normalisations from their kept statistics (on)",
               [&](const auto& text) { o.substitutes = is_on("--substitutes", text); });
  add_argument(command, "--offload",
               "on or off: kept activations may go to host memory and back (off)",
               [&](const auto& text) { o.offload = is_on("--offload", text); });
}

void add_gradients_argument(CLI::App& command, Gradients& gradients) {
  add_argument(command, "--grads", "preallocated, or none: counted as activations (preallocated)",
               [&](const auto& text) { gradients = parse_gradients(text); });
}

void add_threads_argument(CLI::App& command) {
  add_argument(command, "--threads", "CPU threads (LibTorch's choice)", [](const auto& text) {
    at::set_num_threads(static_cast<int>(whole_number("--threads", text, {1, kMostThreads})));
  });
}

void check_budget(const Options& options) {
  const int given = options.max_overhead.has_value() + options.max_peak_bytes.has_value() +
                    (options.policy.empty() ? 0 : 1) + (options.plan == nullptr ? 0 : 1);
  if (given > 1) {
    reject("gradrecomp", "number of --max-overhead, --max-peak, --policy and --plan",
           std::to_string(given), "at most 1. Leave the others out.");
  }
}

}  // namespace gradrecomp::program
