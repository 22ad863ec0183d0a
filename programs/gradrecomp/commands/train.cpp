#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/arguments.h"
#include "commands/commands.h"
#include "format.h"
#include "gradrecomp/memory_meter.h"
#include "input/validators.h"
#include "measure/given_plan.h"
#include "measure/spread.h"
#include "measure/tensor_snapshot.h"
#include "measure/training_step.h"
#include "progress.h"
#include "workload/device.h"
#include "workload/gradients.h"
#include "workload/retained_memory.h"
#include "workload/workload.h"

namespace gradrecomp::program {
namespace {

struct TrainOptions {
  WorkloadOptions workload;
  Options budget;
  std::int64_t num_steps = 8;
  double learning_rate = 0.01;
};

/// A model in training, with its own optimizer and, unless it is plain, a region.
class Trainee {
 public:
  Trainee(const TrainOptions& options, bool planned)
      : bytes_before_(live_bytes(options)),
        workload_(options.workload),
        optimizer_(workload_.parameters(), torch::optim::SGDOptions(options.learning_rate)) {
    if (planned) region_.emplace(options.budget);
    reset_gradients(workload_.parameters(), Gradients::preallocated);
    state_bytes_ = live_bytes(options) - bytes_before_;
  }

  /// Trains on batch `index` and returns the loss.
  float train(std::int64_t index) {
    workload_.load_batch(index);
    reset_gradients(workload_.parameters(), Gradients::preallocated);
    const auto seed = workload_.options().seed + static_cast<std::uint64_t>(index);
    const auto step = run_training_step(workload_, region_ ? &*region_ : nullptr, seed);
    if (region_ && region_->last_step().profiled) check_given_plan(*region_, workload_);
    seconds_.push_back(step.seconds);
    if (!region_ || !region_->last_step().profiled) {
      peak_bytes_ = std::max(peak_bytes_, step.measured_peak_bytes);
    }
    if (workload_.gradient_scale().unscale(workload_.parameters())) optimizer_.step();
    return step.loss.item<float>();
  }

  [[nodiscard]] std::vector<torch::Tensor> state() const {
    auto tensors = workload_.parameters();
    tensors.insert(tensors.end(), workload_.buffers().begin(), workload_.buffers().end());
    return tensors;
  }

  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] const Region& region() const { return *region_; }
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] std::int64_t total_peak_bytes() const { return state_bytes_ + peak_bytes_; }

 private:
  static std::int64_t live_bytes(const TrainOptions& options) {
    return memory_counter(open_device(options.workload.device)).current_bytes;
  }

  std::int64_t bytes_before_;
  Workload workload_;
  torch::optim::SGD optimizer_;
  std::optional<Region> region_;
  std::int64_t state_bytes_ = 0;  // weights, gradients, buffers and a batch
  std::int64_t peak_bytes_ = 0;   // of all steps but the profiled one
  std::vector<double> seconds_;
};

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

void print_head(const Workload& workload) {
  fmt::print("{}\nLibTorch {}, CPU threads {}, gradients preallocated, {}\n\n",
             workload.description(), torch_version(), at::get_num_threads(), memory_retention());
  fmt::print("{:>4}  {:>14}  {:>14}\n", "step", "plain loss", "planned loss");
}

/// Takes one step of each, in the order A B, B A, A B, ..., and prints both losses.
bool train_both(Trainee& plain, Trainee& planned, std::int64_t index) {
  float plain_loss = 0;
  float planned_loss = 0;
  if (index % 2 == 0) plain_loss = plain.train(index);
  planned_loss = planned.train(index);
  if (index % 2 == 1) plain_loss = plain.train(index);
  const bool equal = same_bits(plain_loss, planned_loss);
  fmt::print("{:>4}  {:>14.9g}  {:>14.9g}  {}{}\n", index + 1, plain_loss, planned_loss,
             equal ? "equal" : "DIFFERENT",
             planned.region().last_step().profiled ? ", profiled" : "");
  std::fflush(stdout);
  return equal;
}

Spread time_ratio(const Trainee& plain, const Trainee& planned) {
  std::vector<double> ratios;
  for (std::size_t i = 1; i < plain.seconds().size(); ++i) {
    ratios.push_back(planned.seconds()[i] / plain.seconds()[i]);
  }
  return spread_of(std::move(ratios));
}

void print_summary(const Trainee& plain, const Trainee& planned, bool same_state) {
  const double share = 100.0 * static_cast<double>(planned.peak_bytes()) /
                       static_cast<double>(std::max<std::int64_t>(plain.peak_bytes(), 1));
  const auto predicted = planned.region().plan().predicted_peak_bytes;
  fmt::print("\nfinal parameters and buffers: {}\n", same_state ? "bitwise equal" : "DIFFERENT");
  fmt::print("activation peak: plain {}, planned {} ({:.1f}% of plain), predicted {}\n",
             mebibytes(plain.peak_bytes()), mebibytes(planned.peak_bytes()), share,
             predicted == planned.peak_bytes() ? "to the byte" : mebibytes(predicted));
  fmt::print("total peak:      plain {}, planned {} (with weights, gradients, buffers and input)\n",
             mebibytes(plain.total_peak_bytes()), mebibytes(planned.total_peak_bytes()));
  if (plain.seconds().size() > 1) {
    fmt::print("step time:       planned / plain {} after the profiled step\n",
               to_string(time_ratio(plain, planned)));
  }
  fmt::print("\n{}\n", planned.region().full_report());
}

int run_train(const TrainOptions& options) {
  Progress progress;
  progress.show("building two models from one seed");
  Trainee plain(options, false);
  Trainee planned(options, true);
  progress.clear();
  print_head(plain.workload());
  bool equal = true;
  for (std::int64_t i = 0; i < options.num_steps; ++i) {
    progress.show(fmt::format("step {} of {}", i + 1, options.num_steps));
    equal &= train_both(plain, planned, i);
  }
  progress.clear();
  const bool same_state = TensorSnapshot(plain.state()).equals(planned.state());
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
  add_threads_argument(*command);
  command
      ->add_option("--steps", options->num_steps,
                   "SGD steps; the first is profiled, so at least 2 (8)")
      ->transform(whole_number({2, kMostSteps}));
  command->add_option("--learning-rate", options->learning_rate, "Of SGD (0.01)")
      ->transform(nonnegative());
  command->final_callback([options, &status] { status = run_train(*options); });
}

}  // namespace gradrecomp::program
