#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/training.h"

namespace gradrecomp::test {

/// Runs part of a program: as it is, or in a region.
using RunPart = std::function<at::Tensor(const std::function<at::Tensor()>&)>;

/// One way to run a program under GradRecomp: a policy or budget and a way to verify, or
/// checkpoint().
struct Mode {
  std::string name;
  std::function<RunPart()> make;  ///< a fresh region, if it is one
  bool depends_on_time = false;   ///< what it keeps is decided by seconds
};

/// Kinds of policies and budgets under every way to verify, other policies under one, the default
/// options, and checkpoint().
std::vector<Mode> every_mode();

/// A program of several steps that runs part of each through `run` and returns all tensors that
/// must not change. Seeds are set before it runs.
using HostileProgram = std::function<Tensors(const RunPart&)>;

/// The same for programs of several regions, which get them from `make`.
using ProgramOfRegions = std::function<Tensors(const std::function<RunPart()>& make)>;

/// The gradient of `leaf`, which has none afterwards.
inline at::Tensor gradient_of(const at::Tensor& leaf) {
  return std::exchange(leaf.mutable_grad(), at::Tensor());
}

/// Expects the same bits in every mode as without.
void expect_same_in_every_mode(const HostileProgram& program);
void expect_same_in_every_mode(const ProgramOfRegions& program);

/// What a program that a mode may refuse has to show.
struct Refusal {
  std::string text = {};   ///< part of the stated error
  int least_num_same = 0;  ///< modes, whatever time they take, that must have plain's bits
};

/// Expects the same bits in every mode as without, or a stated error. Returns how many modes raised
/// it.
int expect_same_or_error_in_every_mode(const HostileProgram& program, const Refusal& refusal);
int expect_same_or_error_in_every_mode(const ProgramOfRegions& program, const Refusal& refusal);

}  // namespace gradrecomp::test
