#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/simulator/compiled_graph.h"

namespace gradrecomp::plan {

/// Where a value stands at some time of a step.
struct ValueState {
  Index handles = 0;
  Index wanted = 0;
  Index uses = 0;
  bool held = false;
  bool owned = false;
  bool away = false;    ///< held, but in host memory or in a rounded copy
  bool copied = false;  ///< the rounded copy is there
  bool cached = false;
  bool outlasts_handles = false;
  bool listed = false;
  bool made = false;
  bool dropped = false;
  bool operator==(const ValueState&) const = default;
};

/// A kept value that is away from its own memory for a while, as its plan says.
struct Absence {
  Index value = -1;
  Index leaves_after = -1;
  Index returns_at = -1;
  bool rounded = false;  ///< in a copy of half its bytes; else in host memory, which is not counted
};

/// Those of a plan.
std::vector<Absence> absences(std::span<const Offload> offloads,
                              std::span<const Rounding> roundings);

/// All that determines, with its plan, how a step goes on from some moment.
struct StepState {
  std::vector<ValueState> values;
  std::vector<std::uint8_t> op_wanted;
  std::int64_t live_bytes = 0;
};

/// Carries out a step under a plan, one event after another, as the replay engine would; see
/// Note [ The executor's rule ] in execution.cpp. Checks nothing.
///
/// Threads:  one object serves one thread at a time.
class Execution {
 public:
  /// Throws:  std::invalid_argument if validate(graph) does.
  explicit Execution(const Graph& graph);

  [[nodiscard]] const CompiledGraph& graph() const { return graph_; }

  /// Starts over, before the first event. Refers to `sweeps`; notes replays and returns in
  /// `timeline`, if that is not null.
  void begin(std::span<const Sweep> sweeps, std::vector<Absence> absences, Timeline* timeline);

  /// Runs event `t` from state(). Returns the highest live bytes within it.
  ///
  /// Throws:  std::logic_error if a replay needs a must_keep value that is gone.
  std::int64_t run_event(std::size_t t, std::span<const std::uint8_t> keep);

  [[nodiscard]] const StepState& state() const { return state_; }
  [[nodiscard]] StepState& state() { return state_; }
  [[nodiscard]] std::int64_t seal_bytes() const { return seal_bytes_; }
  /// What replays have cost; all else is 0.
  [[nodiscard]] const Simulation& replays() const { return replays_; }

  /// As Simulator::defer().
  std::vector<Sweep> defer(std::span<const std::uint8_t> keep, std::span<const Index> cached_from);

  // --- for callers that run parts of a step again and again ---

  /// From now on sweeps leave behind what defer() would list for `cached_from`, to which this
  /// refers; if it is empty, the values that have handles.
  void leave_behind(std::span<const Index> cached_from) { due_from_ = cached_from; }
  /// From now on notes the values whose states events read.
  void watch_reads() { is_read_.assign(graph_.values.size(), 0); }
  /// Forgets what was read and replayed so far.
  void count_anew();
  [[nodiscard]] const std::vector<Index>& reads() const { return reads_; }
  [[nodiscard]] const std::vector<std::uint8_t>& is_read() const { return is_read_; }
  /// Whether some event has read the states of all values.
  [[nodiscard]] bool reads_all() const { return reads_all_; }

 private:
  [[nodiscard]] bool live(Index v) const;

  void apply(const Event& event, std::span<const std::uint8_t> keep);
  void touch(std::int64_t bytes);

  void run_op(Index op, std::span<const std::uint8_t> keep);
  void overwrite(Index v);
  void end_ownership(Index v);
  void seal();
  void count_wanted();
  [[nodiscard]] bool wants_replay(Index op) const;
  void let_go(Index v);
  void release(Index v);
  void lower_wanted(Index v);
  void end_pass();
  void uncache(Index v);
  void leave_before(Index op);
  void leave_after(Index op);
  void leave(const Absence& absence);
  void bring_back(Index v);
  void bring_back_at(Index target);

  void demand(Index target);
  [[nodiscard]] const Sweep* listed_sweep(Index target) const;
  void run_listed(const Sweep& sweep);
  void note_deferring(Index target);
  void replay_deferring(Index target);
  [[nodiscard]] bool find_due(Index target, std::span<const Index> from);
  void note_read(Index v);
  void note_closure();
  void replay_closure(Index target);
  void find_closure(Index target);
  void replay(Index op, Index target);
  [[nodiscard]] bool joins_in(Index op) const;
  void take_over(Index op);
  void prepare_in_place(Index op);
  void settle_output(Index v, Index target);
  void cache(Index v, Index target);
  void settle_input(Index v);

  CompiledGraph graph_;
  StepState state_;
  std::int64_t seal_bytes_ = 0;
  Simulation replays_;

  // The plan.
  std::span<const Sweep> sweeps_;
  std::vector<Absence> leaving_;    ///< by the op they leave after
  std::vector<Absence> returning_;  ///< by the value whose demand starts them
  std::size_t num_left_ = 0;        ///< of `leaving_`
  std::span<const Index> due_from_;
  std::span<const Index> cached_from_;  ///< of defer(), while that runs
  std::vector<Sweep> deferring_;        ///< that it has found, by target

  // The current event.
  Index event_ = 0;
  std::int64_t peak_bytes_ = 0;
  Timeline* timeline_ = nullptr;
  std::vector<std::uint8_t> op_needed_;  ///< by the closure
  std::vector<Index> closure_;
  std::vector<Index> away_;  ///< what the closure reads from host memory
  std::vector<Index> stack_;
  std::vector<Index> due_;  ///< of the sweep looked at last
  bool in_listed_sweep_ = false;

  std::vector<std::uint8_t> is_read_;  ///< empty: not asked for
  std::vector<Index> reads_;
  bool reads_all_ = false;
};

}  // namespace gradrecomp::plan
