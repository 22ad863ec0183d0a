#pragma once

#include <atomic>
#include <optional>

#include "gradrecomp/options.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"
#include "region/sequences/known_sequence.h"
#include "region/sequences/plan_trial.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Plans op sequences as a region's options say.
///
/// Threads: any number.
class SequencePlanner {
 public:
  /// `options` must outlive it.
  explicit SequencePlanner(const Options& options) : options_(options) {}

  /// Gives `known` the plan of its graph. `is_first`: no sequence of the region is known yet.
  /// Throws: what Options::selection or Options::plan have wrong; for a later sequence what
  ///         Options::selection names and the sequence does not have is passed over.
  void plan(KnownSequence& known, bool is_first);

  /// A trial for the plan of `known`; none if nothing that it may find would change the plan.
  [[nodiscard]] std::optional<PlanTrial> trial_of(const KnownSequence& known) const;
  /// What trials go by; 0 for a policy.
  [[nodiscard]] double max_overhead() const;
  /// Gives `known` another plan, or none to record by, where what was measured is too far from what
  /// its plan promises.
  void adjust(KnownSequence& known, const MeasuredCosts& costs);

 private:
  [[nodiscard]] plan::Plan make_plan(const KnownSequence& known, bool is_first);
  void plan_again(KnownSequence& known);
  static void measure_again(KnownSequence& known, const MeasuredCosts& costs);
  [[nodiscard]] static plan::HostLink link_of(const KnownSequence& known);
  [[nodiscard]] bool may_record_nothing(const KnownSequence& known) const;
  [[nodiscard]] plan::Plan plan_with_selection(const plan::Graph& graph, plan::Request request,
                                               bool is_first);
  [[nodiscard]] bool fits(const plan::Plan& given, const plan::Graph& graph);
  [[nodiscard]] plan::Plan given_plan(const plan::Graph& graph) const;

  const Options& options_;
  std::atomic<bool> warned_of_signature_ = false;
  std::atomic<bool> warned_of_selection_ = false;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
