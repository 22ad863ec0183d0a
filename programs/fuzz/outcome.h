#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program.h"

namespace gradrecomp::fuzzing {

/// What happens to the outputs of a program.
enum class Ending : std::uint8_t {
  backward,
  backward_twice,   ///< with retain_graph
  two_losses,       ///< a backward from the first output, then one from the others
  some_gradients,   ///< autograd::grad for part of the leaves
  second_order,     ///< backward through a gradient
  other_thread,     ///< backward on a thread of its own
  written_outputs,  ///< an output is written in place before backward
  none,             ///< the outputs are dropped
};

const char* to_string(Ending ending);

/// The bytes of one tensor, or of what else a run left behind.
struct Record {
  std::string name;
  std::string content;
  bool operator==(const Record&) const = default;
};

/// All that one run of a program left behind, copied out of tensors.
struct Outcome {
  std::string error;  ///< of the whole run; empty if it went through
  std::vector<Record> records;
  std::int64_t leaked_bytes = 0;         ///< live bytes after all tensors of the run are gone
  std::int64_t measured_peak_bytes = 0;  ///< of body, loss and backward
};

using Body = std::function<std::vector<torch::Tensor>()>;
/// Runs a body in some way and returns its outputs.
using Wrapping = std::function<std::vector<torch::Tensor>(const Body&)>;

struct Setup {
  Ending ending = Ending::backward;
  Wrapping wrapping = [](const Body& body) { return body(); };
  bool nested = true;  ///< checkpoint() inside the program checkpoints
};

/// Runs `program` once in a fresh world.
Outcome run(const Program& program, const Setup& setup);

/// Runs two steps of `program` whose graphs live at the same time; the second's backward is first.
Outcome run_interleaved(const Program& program, const Setup& setup);

/// What differs between two outcomes, in one line; empty if nothing does.
std::string difference(const Outcome& expected, const Outcome& actual);

}  // namespace gradrecomp::fuzzing
