#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradrecomp/region.h"

namespace gradrecomp::test {

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors(const Tensors&)>;

/// A model under training, as a user would write it. `forward` is the part a region wraps.
struct Program {
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;
  std::function<Tensors()> inputs;
};

/// Everything of a step that GradRecomp must not change.
struct StepState {
  Tensors tensors;
  std::vector<std::string> names;
  std::string error;  ///< of the exception the step threw; empty if none
};

/// Trains `program` for `num_steps` steps of Adam with its forward called through `run`.
std::vector<StepState> train(const Program& program, const Forward& run, int num_steps);

/// Expects `wrapped` to equal `plain` bit for bit: outputs, gradients, buffers, random state,
/// parameters and optimizer state after the step, and both throw or none.
void expect_same(const std::vector<StepState>& plain, const std::vector<StepState>& wrapped);

/// The oracle of the exactness tests: trains the program of `make` plainly and under a region with
/// each of `options`, from the same seeds, and expects every step to be the same.
/// Returns how many ops the regions replayed, so that a test can ask that any were.
std::int64_t expect_same_training(const std::function<Program()>& make,
                                  const std::vector<Options>& options, int num_steps = 3);

/// Runs a forward pass: as it is, or in a region.
using Wrap = std::function<Tensors(const std::function<Tensors()>&)>;

/// The oracle for steps that are more than forward and backward: `step` runs its forward passes
/// through the given wrap and returns all that must not change. Runs it plainly, in a region under
/// several policies (the profiled and the planned step) and dropping everything, from the same
/// seed, and expects the same bits and the same random state. Expects that something was replayed.
void expect_same_step(const std::function<Tensors(const Wrap&)>& step);

/// The same for forward passes of one tensor.
using WrapOne = std::function<at::Tensor(const std::function<at::Tensor()>&)>;
WrapOne one(const Wrap& wrap);

/// Fixed policies and budgets that the exactness tests go through.
std::vector<Options> every_policy();

/// Expects the same bits, one by one.
void expect_same_bits(const Tensors& expected, const Tensors& actual);

/// Bit equality, NaNs included.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// State of the default CPU generator.
at::Tensor random_state();

}  // namespace gradrecomp::test
