#include "fuzz/program/ending.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "fuzz/world/device.h"
#include "fuzz/world/threads.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;
using torch::autograd::grad;

// Weights every element of an output differently, so that no gradient cancels. With other data a
// program may return nothing.
Tensor loss_of(const std::vector<Tensor>& outputs, std::size_t first, std::size_t last) {
  Tensor loss;
  for (std::size_t i = first; i < std::min(last, outputs.size()); ++i) {
    if (!outputs[i].is_floating_point() || !outputs[i].requires_grad()) continue;
    const auto flat = outputs[i].to(torch::kFloat).reshape({-1});
    const auto term = flat.dot(torch::arange(flat.numel(), on_device(torch::kFloat)).cos());
    loss = loss.defined() ? loss + term : term;
  }
  return loss.defined() ? loss : torch::zeros({}, device());
}

Tensor loss(const Finished& finished) {
  auto all = finished.outputs;
  all.insert(all.end(), finished.world.leaked.begin(), finished.world.leaked.end());
  return loss_of(all, 0, all.size());
}

std::vector<Tensor> leaves(const Finished& finished) {
  std::vector<Tensor> tensors;
  for (const auto& leaf : finished.world.leaves) tensors.push_back(leaf.tensor);
  return tensors;
}

// A function of gradients that has a gradient itself; undefined if they have none.
Tensor penalty_of(const std::vector<Tensor>& gradients) {
  Tensor penalty;
  for (const auto& gradient : gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    const auto term = gradient.to_dense().tanh().sum();
    penalty = penalty.defined() ? penalty + term : term;
  }
  return penalty;
}

void twice(const Tensor& total) {
  total.backward({}, /*retain_graph=*/true);
  total.backward();
}

void two_losses(const Finished& finished) {
  const auto first = loss_of(finished.outputs, 0, 1);
  const auto others = loss_of(finished.outputs, 1, finished.outputs.size());
  if (others.requires_grad()) others.backward({}, /*retain_graph=*/true);
  first.backward();
}

// Into tensors of their own: which thread is the first to add to a leaf is chance.
std::vector<Tensor> two_threads(const Finished& finished) {
  const std::vector<Tensor> losses = {loss_of(finished.outputs, 0, 1), loss(finished)};
  std::vector<std::vector<Tensor>> gradients(losses.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    tasks.emplace_back([&, i] {
      gradients[i] = grad({losses[i]}, leaves(finished), {}, /*retain_graph=*/true, false, true);
    });
  }
  run_on_threads(tasks);
  gradients[0].insert(gradients[0].end(), gradients[1].begin(), gradients[1].end());
  return gradients[0];
}

std::vector<Tensor> some_gradients(const Finished& finished) {
  Dice dice(finished.seed + 2);
  std::vector<Tensor> some;
  for (const auto& leaf : leaves(finished)) {
    if (dice.chance(0.4)) some.push_back(leaf);
  }
  some.push_back(finished.world.weight);
  return grad({loss(finished)}, some, {}, std::nullopt, false, true);
}

std::vector<Tensor> second_order(const Finished& finished) {
  auto gradients = grad({loss(finished)}, leaves(finished), {}, true, true, true);
  if (const auto penalty = penalty_of(gradients); penalty.defined()) penalty.backward();
  return gradients;
}

void penalized(const Finished& finished) {
  auto total = loss(finished);
  const auto penalty = penalty_of(grad({total}, leaves(finished), {}, true, true, true));
  if (penalty.defined()) total = total + penalty;
  twice(total);
}

std::vector<Tensor> third_order(const Finished& finished) {
  const auto all = leaves(finished);
  auto gradients = grad({loss(finished)}, all, {}, true, true, true);
  const auto penalty = penalty_of(gradients);
  if (!penalty.defined()) return gradients;
  const auto again = penalty_of(grad({penalty}, all, {}, true, true, true));
  if (again.defined()) again.backward();
  return gradients;
}

struct Interruption : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void retried(const Finished& finished) {
  const auto total = loss(finished);
  const auto hook = finished.world.weight.register_hook(
      [](const Tensor& /*gradient*/) -> Tensor { throw Interruption("interrupted"); });
  try {
    total.backward({}, /*retain_graph=*/true);
  } catch (const Interruption&) {
    empty_engine_queue();
  }
  finished.world.weight.remove_hook(hook);
  total.backward();
}

void on_other_thread(const Finished& finished) {
  const auto total = loss(finished);  // nodes made elsewhere would change the order of accumulation
  run_on_threads({[&] { total.backward(); }});
}

void written_outputs(const Finished& finished) {
  if (finished.outputs.empty()) return;
  auto& first = finished.outputs.front();
  // Not is_leaf(), which takes a view whose base was written for a leaf until its node is asked
  // for.
  if (first.is_floating_point() && first.grad_fn() != nullptr) first.mul_(0.5);
  loss(finished).backward();
}

}  // namespace

const std::vector<Ending>& endings() {
  static const std::vector<Ending> all = {
      Ending::backward,       Ending::backward_twice, Ending::two_losses,      Ending::two_threads,
      Ending::some_gradients, Ending::second_order,   Ending::penalized,       Ending::third_order,
      Ending::retried,        Ending::other_thread,   Ending::written_outputs, Ending::none};
  return all;
}

const char* to_string(Ending ending) {
  switch (ending) {
    case Ending::backward:
      return "backward";
    case Ending::backward_twice:
      return "backward twice";
    case Ending::two_losses:
      return "two losses";
    case Ending::two_threads:
      return "two losses on two threads";
    case Ending::some_gradients:
      return "some gradients";
    case Ending::second_order:
      return "second order";
    case Ending::penalized:
      return "penalized twice";
    case Ending::third_order:
      return "third order";
    case Ending::retried:
      return "retried backward";
    case Ending::other_thread:
      return "backward on another thread";
    case Ending::written_outputs:
      return "written outputs";
    case Ending::none:
      return "no backward";
    case Ending::raw_written_input:
      return "raw write to an input";
    case Ending::data_of_input:
      return "write to an input's data()";
    case Ending::data_of_weights:
      return "write to data() of weights";
    case Ending::set_data_of_input:
      return "set_data() of an input";
    case Ending::set_data_of_weight:
      return "set_data() of a weight";
    case Ending::refilled_memory:
      return "refilled memory";
    case Ending::raw_written_made:
      return "raw write to a factory's result";
  }
  return "?";
}

std::vector<Tensor> end(Ending ending, const Finished& finished) {
  switch (ending) {
    case Ending::backward:
      loss(finished).backward();
      return {};
    case Ending::backward_twice:
      twice(loss(finished));
      return {};
    case Ending::two_losses:
      two_losses(finished);
      return {};
    case Ending::two_threads:
      return two_threads(finished);
    case Ending::some_gradients:
      return some_gradients(finished);
    case Ending::second_order:
      return second_order(finished);
    case Ending::penalized:
      penalized(finished);
      return {};
    case Ending::third_order:
      return third_order(finished);
    case Ending::retried:
      retried(finished);
      return {};
    case Ending::other_thread:
      on_other_thread(finished);
      return {};
    case Ending::written_outputs:
      written_outputs(finished);
      return {};
    case Ending::none:
      return {};
    default:
      write_before_backward(ending, finished);
      loss(finished).backward();
      return {};
  }
}

// The engine throws such tasks away when it meets them, which is before a node as old as one made
// first in its thread.
void empty_engine_queue() {
  Tensor old;
  std::thread([&old] { old = torch::zeros({}).requires_grad_() * 1; }).join();
  old.backward();
}

}  // namespace gradrecomp::fuzzing
