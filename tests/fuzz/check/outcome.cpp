#include "fuzz/check/outcome.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <sstream>

#include "fuzz/program/machine.h"
#include "fuzz/world/autocast_scope.h"
#include "fuzz/world/device.h"
#include "fuzz/world/error_text.h"
#include "fuzz/world/threads.h"
#include "gradrecomp/memory_meter.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

constexpr const char* kErrors = "errors of steps";

std::string bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  const torch::NoGradGuard no_grad;
  const auto dense = tensor.detach().to_dense();
  std::string text(c10::toString(dense.scalar_type()));
  for (const auto size : dense.sizes()) text.append(",").append(std::to_string(size));
  for (const auto stride : dense.strides()) text.append(";").append(std::to_string(stride));
  const auto contiguous = dense.contiguous().cpu();
  return text.append(":").append(static_cast<const char*>(contiguous.data_ptr()),
                                 contiguous.nbytes());
}

void record(Outcome& outcome, const std::string& name, const Tensor& tensor) {
  outcome.records.push_back({name, bytes_of(tensor)});
}

bool hands_out_leaves(const std::vector<Tensor>& outputs) {
  return std::ranges::any_of(outputs, [](const Tensor& output) {
    return output.requires_grad() && (output.is_leaf() || output.is_view());
  });
}

// One run, step by step; its members are the only owners of the run's tensors.
class Run {
 public:
  Run(const Program& program, const Setup& setup, Outcome& outcome)
      : program_(program), setup_(setup), outcome_(outcome), world_(program.seed, setup.variant) {
    world_.inner_regions = setup.inner_regions;
    world_.give_gradients(setup.gradients);
  }

  // What kind of program it was is known of those that throw, too.
  ~Run() {
    outcome_.has_inner |= world_.has_inner;
    outcome_.casts |= world_.casts;
    outcome_.uses_streams |= world_.uses_streams;
    outcome_.replays_in_backward |= world_.replays_in_backward;
    outcome_.writes_unseen |= world_.writes_unseen;
    outcome_.may_refuse |= world_.may_refuse;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void forward() {
    torch::manual_seed(program_.seed);
    const AutocastScope autocast(program_.precision);
    Machine machine(program_, world_);
    outputs_ = setup_.wrapping([&] {
      auto outputs = machine.run();
      errors_ = machine.errors();
      outcome_.caught += machine.caught();
      outcome_.returns_leaves |= hands_out_leaves(outputs) || hands_out_leaves(world_.leaked);
      return outputs;
    });
  }

  void end() {
    const AutocastScope autocast(program_.casts_backward ? program_.precision : Precision::full);
    gradients_ = fuzzing::end(setup_.ending, {program_.seed, world_, outputs_});
  }

  void record_all() {
    outcome_.records.push_back({kErrors, errors_});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      record(outcome_, "output " + std::to_string(i), outputs_[i]);
    }
    for (const auto& buffer : world_.buffers) record(outcome_, buffer.name, buffer.tensor);
    record(outcome_, "own generator", world_.generator.get_state());
    for (const auto& leaf : world_.leaves) {
      record(outcome_, "gradient of " + leaf.name, leaf.tensor.grad());
    }
    for (const auto& gradient : gradients_) record(outcome_, "gradient", gradient);
  }

 private:
  const Program& program_;
  const Setup& setup_;
  Outcome& outcome_;
  World world_;
  std::string errors_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> gradients_;
};

std::string state_of_default_generator() {
  return bytes_of(at::globalContext().defaultGenerator(device_of_kernels()).get_state());
}

template <typename Steps>
Outcome guarded(const Program& program, Steps steps) {
  install_cpu_counter();
  torch::manual_seed(program.seed);
  const std::string state = state_of_default_generator();
  Outcome outcome;
  const std::int64_t before = live_bytes();
  try {
    steps(outcome);
  } catch (const std::exception& error) {
    outcome.error = first_line(error);
  }
  // A backward pass that throws leaves its tasks in the queue, also if the program catches that.
  if (!outcome.error.empty() || !outcome.caught.empty()) empty_engine_queue();
  outcome.leaked_bytes = live_bytes() - before;
  outcome.records.push_back({"default generator", state_of_default_generator()});
  outcome.draws = outcome.records.back().content != state;
  return outcome;
}

}  // namespace

Outcome run(const Program& program, const Setup& setup) {
  return guarded(program, [&](Outcome& outcome) {
    Run run(program, setup, outcome);
    {
      const MemoryMeter meter(device());
      run.forward();
      run.end();
      outcome.measured_peak_bytes = meter.measured_peak_bytes();
    }
    run.record_all();
  });
}

Outcome run_together(const Program& program, const Together& together) {
  return guarded(program, [&](Outcome& outcome) {
    std::deque<Run> runs;
    for (const auto& setup : together.setups) runs.emplace_back(program, setup, outcome);
    std::vector<std::function<void()>> tasks;
    for (const std::size_t i : together.order) {
      tasks.emplace_back([&, i] {
        if (together.runs_on_threads) runs[i].forward();
        runs[i].end();
      });
    }
    if (!together.runs_on_threads) {
      for (auto& run : runs) run.forward();
    }
    if (together.ends_on_threads || together.runs_on_threads) {
      run_on_threads(tasks);
    } else {
      for (const auto& task : tasks) task();
    }
    for (auto& run : runs) run.record_all();
  });
}

/// Where two contents part, as words of four bytes in hexadecimal.
std::string first_difference(const std::string& expected, const std::string& actual) {
  if (expected.size() != actual.size()) return "of another size";
  const auto part = std::ranges::mismatch(expected, actual).in1 - expected.begin();
  const auto begin = static_cast<std::size_t>(part) / 4 * 4;
  std::ostringstream text;
  text << "from byte " << begin << ": " << std::hex;
  for (const std::string* content : {&actual, &expected}) {
    std::uint32_t word = 0;
    std::memcpy(&word, content->data() + begin, std::min<std::size_t>(4, content->size() - begin));
    text << word << (content == &actual ? " instead of " : "");
  }
  return text.str();
}

std::string difference(const Outcome& expected, const Outcome& actual) {
  // Some in-place writes make a cycle in the graph that plain autograd does not free either.
  // Such as is freed when the next run's backward begins counts there as less than nothing.
  if (expected.leaked_bytes <= 0 && actual.leaked_bytes > 0) {
    return std::to_string(actual.leaked_bytes) + " bytes are still alive afterwards";
  }
  if (expected.error.empty() != actual.error.empty()) {
    return actual.error.empty() ? "does not throw: " + expected.error : "throws: " + actual.error;
  }
  if (kind_of_error(expected.error) != kind_of_error(actual.error)) {
    return "throws: " + actual.error + " instead of: " + expected.error;
  }
  if (!expected.error.empty()) return {};
  if (expected.records.size() != actual.records.size()) return "leaves other records behind";
  std::string names;
  for (std::size_t i = 0; i < expected.records.size(); ++i) {
    if (expected.records[i] == actual.records[i]) continue;
    names += (names.empty() ? "" : ", ") + expected.records[i].name;
    const std::string& wanted = expected.records[i].content;
    const std::string& found = actual.records[i].content;
    const bool is_text = expected.records[i].name == kErrors;
    names +=
        " (" + (is_text ? found + "instead of: " + wanted : first_difference(wanted, found)) + ")";
  }
  return names.empty() ? names : "differs in " + names;
}

}  // namespace gradrecomp::fuzzing
