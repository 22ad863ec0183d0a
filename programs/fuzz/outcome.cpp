#include "outcome.h"

#include <ATen/Parallel.h>

#include <optional>
#include <thread>

#include "error_text.h"
#include "gradrecomp/profile/memory_meter.h"
#include "machine.h"
#include "world.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

std::string bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  const torch::NoGradGuard no_grad;
  const auto dense = tensor.detach().to_dense();
  std::string text(c10::toString(dense.scalar_type()));
  for (const auto size : dense.sizes()) text.append(",").append(std::to_string(size));
  for (const auto stride : dense.strides()) text.append(";").append(std::to_string(stride));
  const auto contiguous = dense.contiguous();
  return text.append(":").append(static_cast<const char*>(contiguous.data_ptr()),
                                 contiguous.nbytes());
}

void record(Outcome& outcome, const std::string& name, const Tensor& tensor) {
  outcome.records.push_back({name, bytes_of(tensor)});
}

// Weights every element of an output differently, so that no gradient cancels.
Tensor loss_of(const std::vector<Tensor>& outputs, std::size_t first, std::size_t last) {
  Tensor loss;
  for (std::size_t i = first; i < last; ++i) {
    if (!outputs[i].is_floating_point() || !outputs[i].requires_grad()) continue;
    const auto flat = outputs[i].to(torch::kFloat).reshape({-1});
    const auto term = flat.dot(torch::arange(flat.numel(), torch::kFloat).cos());
    loss = loss.defined() ? loss + term : term;
  }
  return loss.defined() ? loss : torch::zeros({});
}

// One run, step by step; its members are the only owners of the run's tensors.
class Run {
 public:
  Run(const Program& program, const Setup& setup, Outcome& outcome)
      : program_(program), setup_(setup), outcome_(outcome), world_(program.seed) {
    world_.nested = setup.nested;
  }

  void forward() {
    torch::manual_seed(program_.seed);
    Machine machine(program_, world_);
    outputs_ = setup_.wrapping([&] {
      auto outputs = machine.run();
      errors_ = machine.errors();
      return outputs;
    });
  }

  void backward() {
    switch (setup_.ending) {
      case Ending::backward:
        return loss().backward();
      case Ending::backward_twice:
        return twice();
      case Ending::two_losses:
        return two_losses();
      case Ending::some_gradients:
        return some_gradients();
      case Ending::second_order:
        return second_order();
      case Ending::other_thread:
        return on_other_thread();
      case Ending::written_outputs:
        return written_outputs();
      case Ending::none:
        return;
    }
  }

  void record_all() {
    record_forward();
    for (const auto& leaf : world_.leaves) {
      record(outcome_, "gradient of " + leaf.name, leaf.tensor.grad());
    }
    for (const auto& gradient : gradients_) record(outcome_, "gradient", gradient);
  }

  void record_forward() {
    outcome_.records.push_back({"errors of steps", errors_});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      record(outcome_, "output " + std::to_string(i), outputs_[i]);
    }
    for (const auto& buffer : world_.buffers) record(outcome_, buffer.name, buffer.tensor);
    record(outcome_, "own generator", world_.generator.get_state());
  }

 private:
  Tensor loss() {
    auto all = outputs_;
    all.insert(all.end(), world_.leaked.begin(), world_.leaked.end());
    return loss_of(all, 0, all.size());
  }

  void twice() {
    const auto total = loss();
    total.backward({}, /*retain_graph=*/true);
    total.backward();
  }

  void two_losses() {
    const auto first = loss_of(outputs_, 0, 1);
    const auto others = loss_of(outputs_, 1, outputs_.size());
    if (others.requires_grad()) others.backward({}, /*retain_graph=*/true);
    first.backward();
  }

  void some_gradients() {
    Dice dice(program_.seed + 2);
    std::vector<Tensor> leaves;
    for (const auto& leaf : world_.leaves) {
      if (dice.chance(0.4)) leaves.push_back(leaf.tensor);
    }
    leaves.push_back(world_.weight);
    gradients_ = torch::autograd::grad({loss()}, leaves, {}, std::nullopt, false, true);
  }

  void second_order() {
    std::vector<Tensor> leaves;
    for (const auto& leaf : world_.leaves) leaves.push_back(leaf.tensor);
    gradients_ = torch::autograd::grad({loss()}, leaves, {}, true, true, true);
    Tensor penalty;
    for (const auto& gradient : gradients_) {
      if (!gradient.defined() || !gradient.requires_grad()) continue;
      const auto term = gradient.to_dense().tanh().sum();
      penalty = penalty.defined() ? penalty + term : term;
    }
    if (penalty.defined()) penalty.backward();
  }

  void on_other_thread() {
    const auto total = loss();  // nodes made elsewhere would change the order of accumulation
    std::exception_ptr failure;
    const int num_threads = at::get_num_threads();
    std::thread worker([&] {
      // Each thread has its own number of workers, by which a convolution rounds its sums.
      at::set_num_threads(num_threads);
      try {
        total.backward();
      } catch (...) {
        failure = std::current_exception();
      }
    });
    worker.join();
    if (failure) std::rethrow_exception(failure);
  }

  void written_outputs() {
    if (world_.first_output_is_alone) outputs_.front().mul_(0.5);
    loss().backward();
  }

  const Program& program_;
  const Setup& setup_;
  Outcome& outcome_;
  World world_;
  std::string errors_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> gradients_;
};

// An error leaves tasks in this thread's ready queue, and they hold tensors. The engine throws them
// away when it meets them, which is before a node as old as one made first in its thread.
void empty_engine_queue() {
  Tensor old;
  std::thread([&old] { old = torch::zeros({}).requires_grad_() * 1; }).join();
  old.backward();
}

std::int64_t live_bytes() { return profile::memory_counter(c10::kCPU).current_bytes; }

template <typename Steps>
Outcome guarded(Steps steps) {
  profile::install_cpu_counter();
  Outcome outcome;
  const std::int64_t before = live_bytes();
  try {
    steps(outcome);
  } catch (const std::exception& error) {
    outcome.error = first_line(error);
    empty_engine_queue();
  }
  outcome.leaked_bytes = live_bytes() - before;
  const auto generator = at::globalContext().defaultGenerator(c10::kCPU);
  record(outcome, "default generator", generator.get_state());
  return outcome;
}

}  // namespace

const char* to_string(Ending ending) {
  switch (ending) {
    case Ending::backward:
      return "backward";
    case Ending::backward_twice:
      return "backward twice";
    case Ending::two_losses:
      return "two losses";
    case Ending::some_gradients:
      return "some gradients";
    case Ending::second_order:
      return "second order";
    case Ending::other_thread:
      return "backward on another thread";
    case Ending::written_outputs:
      return "written outputs";
    case Ending::none:
      return "no backward";
  }
  return "?";
}

Outcome run(const Program& program, const Setup& setup) {
  return guarded([&](Outcome& outcome) {
    Run run(program, setup, outcome);
    {
      const profile::MemoryMeter meter(c10::kCPU);
      run.forward();
      run.backward();
      outcome.measured_peak_bytes = meter.measured_peak_bytes();
    }
    run.record_all();
  });
}

Outcome run_interleaved(const Program& program, const Setup& setup) {
  return guarded([&](Outcome& outcome) {
    Run first(program, setup, outcome);
    Run second(program, setup, outcome);
    first.forward();
    second.forward();
    second.backward();
    first.backward();
    first.record_all();
    second.record_all();
  });
}

std::string difference(const Outcome& expected, const Outcome& actual) {
  // Some in-place writes make a cycle in the graph that plain autograd does not free either.
  if (expected.leaked_bytes == 0 && actual.leaked_bytes != 0) {
    return std::to_string(actual.leaked_bytes) + " bytes are still alive afterwards";
  }
  if (expected.error.empty() != actual.error.empty()) {
    return actual.error.empty() ? "does not throw: " + expected.error : "throws: " + actual.error;
  }
  if (!expected.error.empty()) return {};
  if (expected.records.size() != actual.records.size()) return "leaves other records behind";
  std::string names;
  for (std::size_t i = 0; i < expected.records.size(); ++i) {
    if (expected.records[i] == actual.records[i]) continue;
    names += (names.empty() ? "" : ", ") + expected.records[i].name;
  }
  return names.empty() ? names : "differs in " + names;
}

}  // namespace gradrecomp::fuzzing
