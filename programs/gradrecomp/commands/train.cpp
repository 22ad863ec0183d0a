#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/arguments.h"
#include "commands/commands.h"
#include "format.h"
#include "gradrecomp/memory_meter.h"
#include "input/validators.h"
#include "measure/resident_memory.h"
#include "measure/spread.h"
#include "measure/tensor_snapshot.h"
#include "measure/training_step.h"
#include "progress.h"
#include "workload/device.h"
#include "workload/workload.h"

namespace gradrecomp::program {
namespace {

constexpr double kHighestLearningRate = 10000;  // float16 weights take no factor beyond 65504

struct TrainOptions {
  WorkloadOptions workload;
  Options budget;
  std::int64_t num_steps = 8;
  double learning_rate = 0.01;
};

std::int64_t live_bytes(const TrainOptions& options) {
  return memory_counter(open_device(options.workload.device)).current_bytes;
}

/// Whether its peak is the one that the plan of the region predicts.
bool is_as_planned(const StepReport& step) {
  return !step.profiled && (step.followed_plan || !step.on_trial);
}

/// A model in training, with its own optimizer and, unless it is plain, a region.
struct Trainee {
  Trainee(const TrainOptions& options, bool planned)
      : state_bytes(live_bytes(options)),
        workload(options.workload),
        optimizer(workload.parameters(), torch::optim::SGDOptions(options.learning_rate)) {
    if (planned) region.emplace(options.budget);
    workload.reset_gradients();
    state_bytes = live_bytes(options) - state_bytes;
  }

  /// Trains on batch `index` and returns the loss. Resident memory is measured at the cost of page
  /// faults.
  float train(std::int64_t index, bool measures_resident) {
    workload.load_batch(index);
    if (!measures_resident) return train_on_batch();
    const ResidentMeter meter;
    const float loss = train_on_batch();
    resident_peak_bytes = meter.peak_bytes();
    return loss;
  }

  float train_on_batch() {
    const auto predicted = region && region->has_plan() ? region->plan().predicted_peak_bytes : 0;
    const auto step = run_training_step(workload, region ? &*region : nullptr);
    seconds.push_back(step.seconds);
    if (!region || is_as_planned(region->last_step())) count(step, predicted);
    if (workload.gradient_scale().unscale(workload.parameters())) optimizer.step();
    return step.loss.item<float>();
  }

  /// Once its first steps have been timed, a region may go by another plan.
  void count(const TrainingStep& step, std::int64_t predicted) {
    if (std::exchange(predicted_peak_bytes, predicted) != predicted) peak_bytes = 0;
    peak_bytes = std::max(peak_bytes, step.measured_peak_bytes);
  }

  std::int64_t state_bytes;  // weights, gradients, buffers and a batch
  Workload workload;
  torch::optim::SGD optimizer;
  std::optional<Region> region = {};
  std::int64_t predicted_peak_bytes = 0;                 // of the plan followed last
  std::int64_t peak_bytes = 0;                           // of all steps as it predicts them
  std::optional<std::int64_t> resident_peak_bytes = {};  // above what was held before the step
  std::vector<double> seconds = {};
};

/// Takes one step of each, in the order A B, B A, A B, ..., and prints both losses.
bool train_both(Trainee& plain, Trainee& planned, std::int64_t index, bool measures_resident) {
  float plain_loss = 0;
  if (index % 2 == 0) plain_loss = plain.train(index, measures_resident);
  const float planned_loss = planned.train(index, measures_resident);
  if (index % 2 == 1) plain_loss = plain.train(index, measures_resident);
  const bool equal =
      std::bit_cast<std::uint32_t>(plain_loss) == std::bit_cast<std::uint32_t>(planned_loss);
  fmt::print("{:>4}  {:>14.9g}  {:>14.9g}  {}{}\n", index + 1, plain_loss, planned_loss,
             equal ? "equal" : "DIFFERENT",
             planned.region->last_step().profiled ? ", profiled" : "");
  std::fflush(stdout);
  return equal;
}

void print_summary(const Trainee& plain, const Trainee& planned, bool same_state) {
  const auto predicted = planned.predicted_peak_bytes;
  fmt::print("\nfinal parameters and buffers: {}\n", same_state ? "bitwise equal" : "DIFFERENT");
  fmt::print("activation peak: plain {}, planned {} ({} of plain), predicted {}\n",
             mebibytes(plain.peak_bytes), mebibytes(planned.peak_bytes),
             percent(share(planned.peak_bytes, plain.peak_bytes)),
             predicted == planned.peak_bytes ? "to the byte" : mebibytes(predicted));
  if (plain.resident_peak_bytes && planned.resident_peak_bytes) {
    fmt::print("resident peak:   plain {}, planned {} (what the last step adds to the process)\n",
               mebibytes(*plain.resident_peak_bytes), mebibytes(*planned.resident_peak_bytes));
  }
  fmt::print("total peak:      plain {}, planned {} (with weights, gradients, buffers and input)\n",
             mebibytes(plain.state_bytes + plain.peak_bytes),
             mebibytes(planned.state_bytes + planned.peak_bytes));
  std::vector<double> ratios;
  for (std::size_t i = 1; i < plain.seconds.size(); ++i) {
    ratios.push_back(planned.seconds[i] / plain.seconds[i]);
  }
  fmt::print("step time:       planned / plain {} after the profiled step\n",
             to_string(spread_of(std::move(ratios))));
  fmt::print("\n{}\n", planned.region->full_report());
}

int run_train(const TrainOptions& options) {
  check_forms(options.budget);
  show_progress("building two models from one seed");
  Trainee plain(options, false);
  Trainee planned(options, true);
  clear_progress();
  fmt::print("{}\n{}\n\n", plain.workload.description(), setting_line(options.workload));
  fmt::print("{:>4}  {:>14}  {:>14}\n", "step", "plain loss", "planned loss");
  bool equal = true;
  for (std::int64_t i = 0; i < options.num_steps; ++i) {
    show_progress(fmt::format("step {} of {}", i + 1, options.num_steps));
    const bool is_last = i + 1 == options.num_steps;
    equal &= train_both(plain, planned, i, is_last && plain.workload.device().is_cpu());
  }
  clear_progress();
  const bool same_state = TensorSnapshot(plain.workload.state()).equals(planned.workload.state());
  print_summary(plain, planned, same_state);
  return equal && same_state ? 0 : 1;
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("train", "Train a model twice, plain and planned, and compare");
  const auto options = std::make_shared<TrainOptions>();
  add_workload_arguments(*command, options->workload);
  add_budget_arguments(*command, options->budget);
  add_plan_argument(*command, options->budget);
  add_steps_argument(*command, options->num_steps, "SGD steps; the first is profiled", 2);
  command->add_option("--learning-rate", options->learning_rate, "Of SGD")
      ->check(nonnegative(kHighestLearningRate));
  command->final_callback([options, &status] { status = run_train(*options); });
}

}  // namespace gradrecomp::program
