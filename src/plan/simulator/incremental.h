#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/simulator/event_peaks.h"
#include "plan/simulator/execution.h"

namespace gradrecomp::plan {

/// One change to a plan: a value is kept from now on, or it is dropped and replays leave it behind
/// from some event on.
struct Move {
  Index value = -1;
  bool keep = false;
  Index cached_from = 0;
};

/// The part of a simulation that a search asks for.
struct Outcome : PeakSum {
  Simulation cost;  ///< the replays alone
};

/// Simulates plans that differ little from one that it has simulated before.
///
/// It says the same of a plan as the Simulator, but for the order in which costs are summed; see
/// Note [ What a move changes ] in incremental.cpp. Offloads nothing.
/// Threads:    one object serves one thread at a time.
/// Complexity: an attempt takes as long as those parts of backward that it changes, and a few
///             operations for each event.
class IncrementalSimulator {
 public:
  explicit IncrementalSimulator(const Graph& graph);

  /// Simulates `keep` without what is not wanted, from `cached_from` on as Simulator::defer does.
  void start(KeptSet keep, std::vector<Index> cached_from);

  /// Later outcomes count the bytes above this as excess.
  void aim_at(std::int64_t target_bytes);

  /// The current plan.
  [[nodiscard]] const Outcome& now() const { return now_; }
  [[nodiscard]] bool keeps(Index v) const { return !sealed_[v].dropped; }
  [[nodiscard]] Index cached_from(Index v) const { return from_[v]; }
  [[nodiscard]] const std::vector<Index>& cached_from() const { return from_; }
  [[nodiscard]] KeptSet kept() const;

  /// The current plan after `moves`, whose values can be chosen and are distinct.
  const Outcome& attempt(std::span<const Move> moves);

  /// Makes what was last attempted the current plan.
  void accept();

 private:
  /// How a value differs from the current plan at some time, and whether its op is wanted.
  struct Patch {
    Index value;
    ValueState state;
    std::uint8_t op_wanted;
  };
  /// A run of events in backward and what is known of it.
  struct Segment {
    std::size_t begin = 0;
    std::size_t end = 0;
    StepState state;  ///< at its begin
    StepState draft;  ///< the same, for attempts to run in, so that they copy only what differs
    std::vector<Index> reads;
    bool reads_all = false;
    Simulation cost;
  };
  /// What an attempt does to a segment.
  struct Change {
    std::size_t patches = 0;  ///< position in patches_
    std::int64_t offset_bytes = 0;
    bool simulated = false;
    std::vector<Index> reads;
    Simulation cost;
  };
  struct Undo {
    Index value;
    ValueState state;
  };

  [[nodiscard]] const CompiledGraph& graph() const { return execution_.graph(); }
  void cut_segments();
  void find_deaths();
  void run(std::size_t segment);

  void undo();
  void change_seal(const Move& move);
  void set_from(Index v, Index from);
  void defer_if_any();
  ValueState& sealed(Index v);
  void want_op(Index op);
  void want_op_no_more(Index op);
  [[nodiscard]] bool wants_replay(Index op) const;
  void hold(Index v, bool held);
  void patch_seal(std::span<const Move> moves);
  [[nodiscard]] std::uint64_t readers_of(const std::vector<Patch>& patches) const;
  [[nodiscard]] bool reads(std::size_t segment, Index v) const;
  void note_reads(std::size_t segment, const std::vector<Index>& reads);
  void simulate_segment(std::size_t segment);
  void patch(StepState& state, const std::vector<Patch>& patches) const;
  void restore(Segment& segment, const std::vector<Patch>& patches);
  void collect_patches(std::size_t segment);
  void count_forward();
  template <typename Visit>
  void for_each_forward_part(Visit visit) const;

  Execution execution_;
  std::size_t seal_ = 0;
  std::vector<std::size_t> death_;  ///< per value: its event in forward; that of the seal if none
  std::vector<Segment> segments_;   ///< and one more, for the end of the step
  std::vector<std::uint64_t> readers_;  ///< per value: a bit for each segment that reads its state
  EventPeaks peaks_;
  std::vector<Index> from_;
  std::int64_t num_deferred_ = 0;  ///< of these that are not 0
  Outcome now_;

  // The state at the seal, which attempts change and undo.
  std::vector<ValueState> sealed_;
  std::vector<std::uint8_t> sealed_op_wanted_;
  std::vector<Undo> undo_;
  std::vector<std::uint8_t> is_noted_;
  std::vector<Index> undo_ops_;
  std::vector<Index> stack_;
  std::vector<Move> undo_from_;

  // The last attempt.
  Outcome next_;
  std::vector<std::vector<Patch>> patches_;
  std::size_t num_patches_ = 0;
  std::vector<Change> changes_;
  std::vector<std::int64_t> next_peaks_;
  std::int64_t offset_bytes_ = 0;
  struct ForwardStep {
    std::size_t event;
    std::int64_t bytes;
  };
  std::vector<ForwardStep> forward_;  ///< from which event on how many bytes more are live
};

}  // namespace gradrecomp::plan
