#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fuzz/program/ending.h"
#include "fuzz/program/program.h"
#include "fuzz/world/world.h"

namespace gradrecomp::fuzzing {

/// The bytes of one tensor, or of what else a run left behind.
struct Record {
  std::string name;
  std::string content;
  bool operator==(const Record&) const = default;
};

/// All that one run of a program left behind, copied out of tensors.
struct Outcome {
  std::string error;   ///< of the whole run; empty if it went through
  std::string caught;  ///< errors that the program caught
  std::vector<Record> records;
  std::int64_t leaked_bytes = 0;         ///< live bytes after all tensors of the run are gone
  std::int64_t measured_peak_bytes = 0;  ///< of body, loss and backward
  bool has_inner = false;                ///< checkpoints or regions inside the program
  bool uses_streams = false;             ///< other than the current one
  bool replays_in_backward = false;      ///< by tapes made in backward, of which no plan knows
  bool draws = false;                    ///< from the default generator
  bool casts = false;                    ///< automatically, inside the program
  bool returns_leaves = false;           ///< or leaks them, so that no op of the region reads them
  bool writes_unseen = false;            ///< past the dispatcher and version counters
  bool may_refuse = false;               ///< such writes met what had been read
};

using Body = std::function<std::vector<torch::Tensor>()>;
/// Runs a body in some way and returns its outputs.
using Wrapping = std::function<std::vector<torch::Tensor>(const Body&)>;

struct Setup {
  Ending ending = Ending::backward;
  Wrapping wrapping = [](const Body& body) { return body(); };
  /// What the program's own checkpoints and regions are; null: they just run what they hold.
  InnerRegions* inner_regions = nullptr;
  Variant variant = {};
  std::uint64_t gradients = 0;  ///< which leaves have one already; 0: none
};

/// Runs `program` once in a fresh world.
Outcome run(const Program& program, const Setup& setup);

/// Runs of one program whose graphs live at the same time.
struct Together {
  std::vector<Setup> setups;       ///< one a run
  std::vector<std::size_t> order;  ///< of the endings; a run left out drops its outputs
  /// All endings at once, each on a thread of its own.
  bool ends_on_threads = false;
  /// Forward passes too; for programs that do not draw from the default generator.
  bool runs_on_threads = false;
};

Outcome run_together(const Program& program, const Together& together);

/// What differs between two outcomes, in one line; empty if nothing does.
std::string difference(const Outcome& expected, const Outcome& actual);

}  // namespace gradrecomp::fuzzing
