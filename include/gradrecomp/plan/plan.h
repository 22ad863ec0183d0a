#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"

namespace gradrecomp::plan {

/// Which costs a budget speaks of.
enum class CostModel : std::uint8_t { seconds, flops };

/// What one replay sweep of a nested plan leaves behind, instead of every value with handles.
///
/// A sweep is known by the demanded value that sets it off. What it makes and does not cache is
/// replayed again by a later sweep.
struct Sweep {
  Index target = -1;               ///< the demanded value; cached at least until its last release
  std::vector<Index> cached = {};  ///< ascending; each is held until nothing wants it any more
  bool operator==(const Sweep&) const = default;
};

/// A kept value that is in host memory between its use in forward and its use in backward.
struct Offload {
  Index value = -1;         ///< kept, and no parameter: an op of the region makes it
  Index leaves_after = -1;  ///< the op after which it lets go of its device's memory
  Index returns_at = -1;    ///< the value whose demand starts the way back; -1: when it is needed
  bool operator==(const Offload&) const = default;
};

/// A kept value that is rounded to bfloat16 between its use in forward and its use in backward, in
/// half its bytes. Gradients then differ from those of plain training.
struct Rounding {
  Index value = -1;  ///< kept, of float32, and no parameter: an op of the region makes it
  Index after = -1;  ///< the op after which the copy takes the value's place
  bool operator==(const Rounding&) const = default;
};

/// Those of a rounded copy of a value of `bytes`.
constexpr std::int64_t rounded_bytes(std::int64_t bytes) { return bytes / 2; }

/// What a plan is predicted to do to the memory of one device.
struct DevicePeak {
  std::string device = {};  ///< its name, "cuda:0"
  std::int64_t predicted_peak_bytes = 0;
  std::int64_t predicted_plain_peak_bytes = 0;
  bool operator==(const DevicePeak&) const = default;
};

/// Which values of one op sequence to keep, and what that is predicted to cost.
struct GRADRECOMP_API Plan {
  std::string policy = {};  ///< what made it: "max_overhead", "keep_all", "every_2", ...
  std::vector<std::uint8_t> keep = {};  ///< per value of the graph: 1 keep, 0 drop
  std::vector<Sweep> sweeps = {};  ///< of a nested plan, by target; empty: no value is made twice
  std::vector<Offload> offloads = {};    ///< by value; empty: all that is kept stays on its device
  std::vector<Rounding> roundings = {};  ///< by value; empty: gradients have plain's bits
  std::uint64_t signature = 0;           ///< of the op sequence it was made for
  CostModel cost = CostModel::seconds;
  bool feasible = true;  ///< false: no plan meets the bound; this is the nearest one
  /// Activation peak of the step under this plan; of the main device where there are several.
  std::int64_t predicted_peak_bytes = 0;
  std::int64_t predicted_plain_peak_bytes = 0;  ///< the same of the plain step
  /// Both peaks of each device of a step on several, the main one first; else empty.
  std::vector<DevicePeak> devices = {};
  double predicted_overhead_seconds = 0;  ///< ratio: replay seconds / plain step seconds
  double predicted_overhead_flops = 0;    ///< ratio: replay FLOPs / plain step FLOPs
  std::int64_t num_replayed_ops = 0;      ///< op replays per step, repeats counted
  std::int64_t offloaded_bytes = 0;       ///< that go to host memory and back in a step
  double predicted_stall = 0;      ///< ratio: seconds that wait for transfers / plain step seconds
  std::int64_t rounded_bytes = 0;  ///< that wait for backward in half as many
  double predicted_rounding = 0;   ///< ratio: seconds of rounding and back / plain step seconds
  /// No plan has a lower activation peak (of the main device) at this plan's overhead, in `cost`,
  /// or less. For plans that offload or round, nothing is proven and both are 0.
  std::int64_t proven_peak_bytes = 0;
  /// No plan reaches this plan's peak, or a lower one, at less overhead, in `cost`.
  double proven_overhead = 0;
  Proof peak_proof = {};      ///< of proven_peak_bytes; see verify()
  Proof overhead_proof = {};  ///< of proven_overhead
  double planning_seconds = 0;

  /// What a budget in `of` speaks of; stalls are not in it.
  [[nodiscard]] double predicted_overhead(CostModel of) const;
  /// Sets what is proven to nothing.
  void withdraw_proofs();
  /// One line: policy, predicted peak of each device, its share of plain, both overheads.
  [[nodiscard]] std::string brief_report() const;
};

}  // namespace gradrecomp::plan
