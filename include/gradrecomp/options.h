#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "gradrecomp/export.h"
#include "gradrecomp/guard.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/policy.h"
#include "gradrecomp/plan/request.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// When a dropped value is replayed beside its original and compared bit for bit.
enum class Verify : std::uint8_t {
  first_step,     ///< in the profiling step of every new op sequence
  every_n_steps,  ///< and again every Options::verify_interval_steps
  never,          ///< trust schemas and tags alone; saves one forward pass of the first step
};

/// In which forms kept values may wait for backward.
enum class Forms : std::uint8_t {
  exact,  ///< as they are, so that gradients have plain training's bits
  /// Values of float32 also rounded to bfloat16, in half their bytes, where that costs less than to
  /// keep or to replay them. What backward reads is then off by 2^-8 of its size at most, and what
  /// replays make of it, and gradients, by what comes of that; docs/design/rounding.md says of
  /// which operators. Losses and buffers are plain training's. Masks, integers and what is drawn
  /// stay exact.
  lossy_bf16,
};

/// What a region may spend, and how it is watched. Give one budget or one policy.
struct Options {
  static constexpr double kDefaultOverhead = 0.05;

  /// Largest extra cost of a step on all its devices, as a ratio to the plain step (forward +
  /// backward). If neither a budget nor a policy is given, `kDefaultOverhead`. Under
  /// CostModel::seconds the first steps that follow a plan are timed, and it is made again where it
  /// is off. If they show, on the CPU, that recording alone exceeds the budget, or leaves a plan
  /// next to nothing to save, later steps run as plain training does; see `unrecorded_bytes` and
  /// StepReport::reason.
  std::optional<double> max_overhead = {};
  /// Highest activation bytes of a step, on each of its devices. An unreachable bound is not an
  /// error: it gives the plan of the lowest peak found, with Plan::feasible false.
  std::optional<std::int64_t> max_peak_bytes = {};
  /// What `max_overhead` counts: measured seconds, or FLOPs, which do not depend on the machine but
  /// are blind to pointwise work.
  plan::CostModel cost = plan::CostModel::seconds;
  /// A fixed policy instead of a budget: "keep_all", "drop_all", "every_2", "sqrt_n", ... Steps
  /// without a plan drop what they can, window by window, but for "keep_all", which never drops.
  std::optional<plan::Policy> policy = {};
  /// A plan made elsewhere, used as it is for the op sequence whose signature it names; its figures
  /// are predicted anew. Other sequences are planned by the budget.
  std::shared_ptr<const plan::Plan> plan = {};
  /// Values to keep or drop whatever the planner would do.
  plan::Selection selection = {};
  /// Replay normalisations from their kept statistics, a residual's addition and a ReLU after them
  /// in the same pass, where verification finds that this gives equal bits. Off: replay by the
  /// recorded calls alone.
  bool substitutes = true;
  /// Let kept values go to host memory between forward and backward where that costs less than
  /// replays, in pinned memory and beside the device's work. Under a budget only. The link is timed
  /// as a plan needs it. On the CPU this only serves tests: it moves bytes out of the count. Where
  /// a region makes values on several devices, only those of the main one go, and only if the
  /// budget is about that one alone.
  bool offload = false;
  /// Under a budget only, and not together with `offload`. Plans say how much they round, and
  /// reports that gradients are not plain's. Their promise in seconds is not measured again. What
  /// is captured into a CUDA graph stays exact.
  Forms forms = Forms::exact;
  Verify verify = Verify::first_step;
  /// How much of the memory that replays read and the program still holds is compared, such as
  /// weights and inputs: before backward the program may write to it past the dispatcher and past
  /// version counters. A difference is an error of backward. Samples see any write to a whole
  /// column of what an operator of the region reads, or to a whole row of 128 bytes or more; in
  /// narrower rows, they see writes to several at regular distances or side by side, but not always
  /// to a single one. Steps that verify compare all. Memory of a device that has GradRecomp's
  /// kernels is compared whole, from the end of the region on, but only when backward has ended:
  /// the error then asks to discard its gradients.
  Guard guard = Guard::sampled;
  std::int64_t verify_interval_steps = 100;
  /// In steps without a plan: bytes that may be saved before what the program no longer holds is
  /// verified and dropped. Such a window also ends where a named stage begins. If not given, a
  /// window ends where closing it drops about as much as stays: a first step then needs little
  /// memory.
  std::optional<std::int64_t> window_bytes = {};
  /// Steps go unrecorded, see `max_overhead`, only where they then hold fewer bytes than this
  /// beyond the plan. 0: all steps are recorded.
  std::int64_t unrecorded_bytes = std::int64_t{64} << 20;
  /// Op sequences whose plans a region remembers. When one more comes, the one not followed for
  /// longest loses its plan, which is made again, mostly without a profile, if it returns.
  std::int64_t max_plans = 64;
};

/// Throws:  c10::ValueError naming the option that is out of range or contradicts another.
GRADRECOMP_API void validate(const Options& options);

/// What `options` ask the planner: their budget or policy, or the default budget if they have
/// neither. Without a host link, whatever Options::offload says, as that is measured.
GRADRECOMP_API plan::Request request_of(const Options& options);

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
