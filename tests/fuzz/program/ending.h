#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "fuzz/world/world.h"

namespace gradrecomp::fuzzing {

/// What happens to the outputs of a program.
enum class Ending : std::uint8_t {
  backward,
  backward_twice,   ///< with retain_graph
  two_losses,       ///< a backward from the first output, then one from the others
  two_threads,      ///< gradients of these two losses, both at once
  some_gradients,   ///< autograd::grad for part of the leaves
  second_order,     ///< backward through a gradient
  penalized,        ///< backward, twice, through the loss and a function of its gradient
  third_order,      ///< backward through the gradient of a function of a gradient
  retried,          ///< a hook throws in the first backward; the second goes through
  other_thread,     ///< backward on a thread of its own
  written_outputs,  ///< an output is written in place before backward
  none,             ///< the outputs are dropped
  // Of hostile programs: something is written between forward and backward, past version counters.
  raw_written_input,   ///< through a pointer
  data_of_input,       ///< an input's .data()
  data_of_weights,     ///< that of parameters
  set_data_of_input,   ///< an input gets other memory
  set_data_of_weight,  ///< a parameter does
  refilled_memory,     ///< buffers that the program has lent
  raw_written_made,    ///< what factories made
};

/// All endings of programs that are not hostile.
const std::vector<Ending>& endings();
/// Those of hostile ones besides.
const std::vector<Ending>& hostile_endings();

const char* to_string(Ending ending);

/// What a program leaves to its ending.
struct Finished {
  std::uint64_t seed = 0;
  World& world;
  std::vector<torch::Tensor>& outputs;
};

/// Does what `ending` says. Returns the gradients that are not in the leaves.
std::vector<torch::Tensor> end(Ending ending, const Finished& finished);

/// Writes what `ending`, one of hostile_endings(), says.
void write_before_backward(Ending ending, const Finished& finished);

/// An error in backward leaves tasks in this thread's ready queue, and they hold tensors. Drops
/// them.
void empty_engine_queue();

}  // namespace gradrecomp::fuzzing
