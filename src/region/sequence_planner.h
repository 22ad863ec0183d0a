#pragma once

#include <atomic>

#include "gradrecomp/options.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"
#include "region/known_sequence.h"

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

 private:
  [[nodiscard]] plan::Plan make_plan(const plan::Graph& graph, c10::Device device, bool is_first);
  [[nodiscard]] plan::Plan plan_with_selection(const plan::Graph& graph, plan::Request request,
                                               bool is_first);
  [[nodiscard]] bool fits(const plan::Plan& given, const plan::Graph& graph);
  [[nodiscard]] plan::Plan given_plan(const plan::Graph& graph) const;

  const Options& options_;
  std::atomic<bool> warned_of_signature_ = false;
  std::atomic<bool> warned_of_selection_ = false;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
