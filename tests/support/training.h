#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradrecomp/region/region.h"

namespace gradrecomp::test {

/// A model under training, as a user would write it. `forward` is the part a region wraps.
struct Program {
  std::shared_ptr<torch::nn::Module> module;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward;
  std::function<std::vector<at::Tensor>()> inputs;
};

/// Everything of a step that GradRecomp must not change.
struct StepState {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::string error;  ///< of the exception the step threw; empty if none
};

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Trains `program` for `num_steps` SGD steps with its forward called through `run`.
std::vector<StepState> train(const Program& program, const Forward& run, int num_steps);

/// Expects `wrapped` to equal `plain` bit for bit: outputs, gradients, buffers, random state,
/// parameters after the step, and both throw or none.
void expect_same(const std::vector<StepState>& plain, const std::vector<StepState>& wrapped);

/// The oracle of the exactness tests: trains the program of `make` plainly and under a region with
/// each of `options`, from the same seeds, and expects every step to be the same.
/// Returns how many ops the regions replayed, so that a test can ask that any were.
std::int64_t expect_same_training(const std::function<Program()>& make,
                                  const std::vector<Options>& options, int num_steps = 3);

/// Policies and budgets that the exactness tests go through.
std::vector<Options> every_policy();

/// Bit equality, NaNs included.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace gradrecomp::test
