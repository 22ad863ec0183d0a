#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/region.h"
#include "profile/step_log.h"
#include "region/sequence_planner.h"
#include "region/sequences/asked_sequences.h"
#include "region/sequences/known_sequences.h"
#include "region/sequences/profile_schedule.h"
#include "region/sequences/sequence_order.h"
#include "region/step_reports.h"
#include "region/trials.h"
#include "tape/record/recorder.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// What a region remembers between steps: its options and the op sequences it has seen.
///
/// Threads: steps begin on one thread; what backward learns may come from another.
class Session {
 public:
  /// The findings of a profiled step beside its graph.
  struct Profiled {
    const Sequence& sequence;
    const std::vector<std::int32_t>& calls;  ///< as in a recording plan
    std::vector<tape::ReplayMethod> methods;
    tape::Retentions kept;     ///< what the step itself kept, as a recording plan does
    c10::Device device;        ///< that its ops ran on
    bool was_short_of_memory;  ///< so that not all it made was verified
    bool is_of_first_pass;     ///< false: a later pass of a step already reported
  };

  /// How a step that begins is to run.
  struct StepStart {
    tape::RecordingPlan plan = {};  ///< none: it is to be profiled, or may not be and has none
    Trials::Turn turn = {};
    std::uint64_t signature = 0;     ///< expected of it, if it is not recorded
    c10::Device device = c10::kCPU;  ///< that its ops are expected to run on
    std::int64_t most_growth = 0;    ///< in bytes, expected of it, if it is not recorded
  };

  static constexpr const char* kBackwardInside =
      "backward, or grad(), runs inside the region. Move it out of the region to get a plan.";

  explicit Session(Options options);

  [[nodiscard]] const Options& options() const { return options_; }
  /// The planned sequence that was followed last, or that a backward pass made; null: none.
  [[nodiscard]] std::shared_ptr<const KnownSequence> last_planned() const;
  [[nodiscard]] std::string why_no_plan() const;
  [[nodiscard]] std::int64_t num_plans() const;
  /// What to call the plan that is followed, in messages; null if there is none.
  [[nodiscard]] std::shared_ptr<const std::string> plan_name() const;
  [[nodiscard]] StepReport report() const;

  /// `may_profile`: it may also go unrecorded.
  StepStart begin_step(bool may_profile);
  /// Of the blocks of the step that began last; null if it follows no plan.
  [[nodiscard]] std::shared_ptr<arena::SequenceAddresses> addresses() const;
  /// The number of the step that began last. Reports are of the step with the highest.
  [[nodiscard]] std::int64_t step_number() const;
  /// How to record on in a step that left its plan at `call`, or none if no known sequence goes on
  /// so.
  tape::RecordingPlan leave_plan(std::size_t call, std::uint64_t hash);
  /// Has `then` called when the next step begins.
  void at_next_step(std::function<void()> then);
  /// Call it without locks before begin_step().
  void next_step_begins();
  /// Notes that code which was to be a step runs plainly.
  void passed_over(const char* reason);
  /// Notes that the step of that number was given up; it may have been due for a profile.
  void gave_up(std::int64_t number, bool profiled);
  /// Notes what the step of that number was when its region closed.
  void closed(std::int64_t number, StepReport step, const Sequence& sequence);
  /// The same of one that was not recorded, and took so long and so much more memory.
  void closed_unrecorded(std::int64_t number, const StepStart& start, double forward_seconds,
                         std::int64_t growth_bytes);
  /// Takes into account how long the step of that number took, which was on trial.
  void timed(std::int64_t number, const Sequence& sequence, const RecordedCosts& times);
  /// Whether it is still unknown which values of the sequence replays depend on.
  [[nodiscard]] bool wants_guarded(const Sequence& sequence) const;
  /// Notes them, unless the sequence has been given another plan since.
  void note_guarded(const Sequence& sequence, const tape::RecordingPlan& followed,
                    std::vector<tape::ValueId> values);
  /// Notes what a backward pass replayed for the step of that number.
  void replayed(std::int64_t number, const tape::Tape& tape);
  /// Plans for a profiled sequence.
  /// Throws: what Options::selection or Options::plan have wrong, for the first sequence.
  void learn(const Profiled& profiled, plan::Graph graph);
  /// Notes that a profiled step is gone and no backward pass has asked it for anything. When that
  /// comes again, and no pass has ever asked such a step, the sequence goes on without a profile,
  /// until asked() says otherwise.
  void never_asked(const Sequence& sequence, tape::Retentions kept);
  /// Notes that a backward pass asks a step for something.
  void asked(const Sequence& sequence);
  /// Makes the sequence one that goes on as it was run, for lack of anything to plan.
  void settle(const Sequence& sequence, tape::Retentions kept, std::string why);
  /// The same for what the planner's model does not know, of which the program is warned.
  void settle_unplannable(const Sequence& sequence, tape::Retentions kept, const std::string& why);
  /// Without verification it would not be known which substitutes give equal bits.
  [[nodiscard]] bool has_substitutes() const { return options_.substitutes && verifies(); }
  [[nodiscard]] bool verifies() const { return options_.verify != Verify::never; }

 private:
  using Known = KnownSequences::Known;

  [[nodiscard]] bool due_for_verification() const;
  [[nodiscard]] Known expected() const;
  void activate(const Known& known);
  void remember(Known known);
  [[nodiscard]] std::string why_unrecorded(const StepStart& start) const;
  [[nodiscard]] bool adds_nothing(const Known& before, const Profiled& profiled,
                                  const plan::Graph& graph) const;

  Options options_;
  SequencePlanner planner_;
  Trials trials_;
  mutable std::recursive_mutex mutex_;  // plans that were forgotten are made again under it
  StepReports reports_;
  KnownSequences sequences_;
  ProfileSchedule schedule_;
  std::vector<std::function<void()>> at_next_step_;
  std::string warning_at_next_step_;
  SequenceOrder order_;
  AskedSequences asked_;
  std::int64_t num_steps_ = 0;
  int num_short_profiles_ = 0;
  std::atomic<bool> warned_of_unplannable_ = false;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
