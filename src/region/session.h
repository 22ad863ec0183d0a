#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/profile/step_log.h"
#include "gradrecomp/region/region.h"
#include "gradrecomp/tape/recorder.h"

namespace gradrecomp {

/// Everything known of one op sequence.
struct PlannedSequence {
  tape::Advice advice;  ///< shared with the recorders that follow it
  plan::Graph graph;
  plan::Plan plan;
  std::shared_ptr<const std::string> name;  ///< of the plan, for messages
};

/// What a region remembers between steps: its options and the plans of the sequences it has seen.
///
/// Threads: steps begin on one thread; what backward learns may come from another.
class Session {
 public:
  using Sequence = std::vector<std::uint64_t>;

  /// What a profiled step found out beside its graph.
  struct Profiled {
    const Sequence& sequence;
    std::vector<tape::Variant> variants;
    c10::Device device;  ///< that its ops ran on
  };

  explicit Session(Options options);

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const PlannedSequence* active() const { return active_.get(); }
  [[nodiscard]] std::int64_t num_plans() const;
  /// What to call the plan that is followed, in messages; null if there is none.
  [[nodiscard]] std::shared_ptr<const std::string> plan_name() const;
  [[nodiscard]] const StepReport& report() const { return report_; }

  /// Advice to begin a step with; none if the step is to be profiled.
  tape::Advice begin_step();
  /// Advice for a step that left its plan at `call`, or none if no known sequence goes on so.
  tape::Advice leave_plan(std::size_t call, std::uint64_t hash);
  /// A log for a step that is to be profiled, or null while another is under way.
  std::shared_ptr<profile::StepLog> open_log();
  /// Notes what a step was when its region closed.
  void closed(const StepReport& step);
  /// Notes what a backward pass replayed.
  void replayed(const tape::Tape& tape);
  /// Notes a sequence that ended without a plan of its own.
  void missed(const Sequence& sequence);
  /// Plans for a profiled sequence.
  void learn(const Profiled& profiled, plan::Graph graph);
  /// Without verification nobody would know which substitutes give equal bits.
  [[nodiscard]] bool has_substitutes() const { return options_.substitutes && verifies(); }
  [[nodiscard]] bool verifies() const { return options_.verify != Verify::never; }

 private:
  [[nodiscard]] bool due_for_verification() const;
  void activate(std::shared_ptr<const PlannedSequence> known);
  [[nodiscard]] plan::Plan make_plan(const plan::Graph& graph, c10::Device device);
  [[nodiscard]] bool fits(const plan::Plan& given, const plan::Graph& graph);
  [[nodiscard]] plan::Plan given_plan(const plan::Graph& graph) const;

  static constexpr std::int64_t kMaxMissesInRow = 4;  // then sequences are taken for ever-changing

  Options options_;
  mutable std::mutex mutex_;
  StepReport report_;
  std::vector<std::shared_ptr<const PlannedSequence>> sequences_;  ///< the last followed last
  std::shared_ptr<const PlannedSequence> active_;
  std::weak_ptr<profile::StepLog> open_log_;
  std::int64_t num_steps_ = 0;
  std::int64_t num_misses_ = 0;
  bool profile_next_ = false;
  std::atomic<bool> warned_of_signature_ = false;
};

}  // namespace gradrecomp
