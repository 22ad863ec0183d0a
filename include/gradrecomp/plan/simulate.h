#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// What one step does under a kept set and the sweeps of a plan; bytes are of the main device.
struct Simulation {
  std::int64_t peak_bytes = 0;  ///< highest live activation bytes above the step's start
  std::int64_t seal_bytes = 0;  ///< live when the forward pass of the region has ended
  Index peak_event = -1;        ///< position in Graph::events at which the peak occurs
  double replay_seconds = 0;
  double replay_flops = 0;
  double replay_bytes_moved = 0;
  std::int64_t num_replayed_ops = 0;
  bool operator==(const Simulation&) const = default;
};

/// How one step went, event by event.
struct Timeline {
  std::vector<std::int64_t> live_bytes;  ///< after each event
  std::vector<std::int64_t> peak_bytes;  ///< highest within each event
  std::vector<std::uint8_t> held;        ///< per value: the tape holds it when the seal is done
  std::vector<Index> replayed_ops;       ///< in the order of their replays
  std::vector<Index> replay_events;      ///< of each of these, the event that set it off
  std::vector<Index> returned_values;    ///< offloaded ones, in the order of their ways back
  std::vector<Index> return_events;      ///< of each of these, the event that set it off
};

/// Replays the event log of one graph under many kept sets, reusing its compiled form.
///
/// Counts memory of the main device; pass on_device(graph, d) for that of another.
/// Mimics the replay engine exactly; see Note [ The executor's rule ] in simulate.cpp.
/// Threads:    one object serves one thread at a time; it does not refer to the graph it came from.
/// Complexity: a run takes O(ops + events + replayed ops + their inputs).
class GRADRECOMP_API Simulator {
 public:
  /// Throws:  std::invalid_argument if validate(graph) does.
  explicit Simulator(const Graph& graph);

  /// Throws:  std::invalid_argument if `keep` does not have one entry per value;
  ///          std::logic_error if a replay needs a must_keep value that is gone.
  Simulation run(std::span<const std::uint8_t> keep);
  Simulation run(std::span<const std::uint8_t> keep, Timeline& timeline);

  /// The same where the replays that `sweeps` lists leave behind what is listed there.
  ///
  /// Throws:  std::invalid_argument also if targets, or the values a sweep caches, do not ascend or
  ///          are not the last versions of their storages.
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps);
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 Timeline& timeline);

  /// The same where kept values are in host memory for a while, which counts nothing.
  ///
  /// Throws:  std::invalid_argument also if the values of `offloads` do not ascend, are not kept
  ///          last versions that ops make, or name an op before their own or no value.
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 std::span<const Offload> offloads);
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 std::span<const Offload> offloads, Timeline& timeline);

  /// The sweeps of a plan whose replays leave a saved value `v` behind only from event
  /// `cached_from[v]` on, and are listed where that makes a difference. Where that is ~t, below 0,
  /// from event t on they leave `v` behind as long as anything wants it, saved or not.
  std::vector<Sweep> defer(std::span<const std::uint8_t> keep, std::span<const Index> cached_from);

 private:
  friend class IncrementalSimulator;

  struct ValueFacts {
    std::int64_t bytes;
    Index producer;
    Index overwrites;
    bool must_keep;
    bool snapshot;
    bool last_version;
  };
  struct OpFacts {
    std::int64_t transient_bytes = 0;
    std::int64_t replay_transient_bytes = 0;
    std::int64_t fresh_bytes = 0;
    double replay_seconds = 0;
    double joined_seconds = 0;
    double flops = 0;
    double bytes_moved = 0;
    Index inputs_begin = 0, inputs_end = 0;
    Index outputs_begin = 0, outputs_end = 0;
    bool in_place = false;
    bool joins = false;
  };
  struct ValueState {
    Index handles = 0;
    Index wanted = 0;
    Index uses = 0;
    bool held = false;
    bool owned = false;
    bool away = false;  ///< held, but in host memory
    bool cached = false;
    bool outlasts_handles = false;
    bool listed = false;
    bool made = false;
    bool dropped = false;
    bool operator==(const ValueState&) const = default;
  };

  [[nodiscard]] std::span<const Index> inputs(Index op) const;
  [[nodiscard]] std::span<const Index> outputs(Index op) const;
  [[nodiscard]] bool live(Index v) const;

  void check(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
             std::span<const Offload> offloads) const;
  void check_sweeps(std::span<const Sweep> sweeps) const;
  void check_offloads(std::span<const Offload> offloads, std::span<const std::uint8_t> keep) const;
  void check_value(Index v, Index previous, const char* name) const;

  void prepare(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
               std::span<const Offload> offloads);
  template <bool record>
  Simulation run_events(std::span<const std::uint8_t> keep, Timeline* timeline);
  void apply(const Event& event, std::span<const std::uint8_t> keep);
  void reset();
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
  void leave(Index v);
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

  std::vector<ValueFacts> values_;
  std::vector<OpFacts> ops_;
  std::vector<Index> op_inputs_;
  std::vector<Index> op_outputs_;
  std::vector<Event> events_;

  std::vector<ValueState> state_;
  std::vector<std::uint8_t> op_wanted_;
  std::vector<std::uint8_t> op_needed_;
  std::vector<Index> closure_;
  std::vector<Index> away_;  ///< what the closure reads from host memory
  std::vector<Index> stack_;
  std::int64_t live_bytes_ = 0;
  std::int64_t event_peak_bytes_ = 0;
  Simulation result_;
  Timeline* timeline_ = nullptr;
  std::span<const Sweep> sweeps_;   // of the current run
  std::vector<Offload> leaving_;    // of the current run, by the op they leave after
  std::vector<Offload> returning_;  // of the current run, by the value whose demand starts them
  std::size_t num_left_ = 0;        // of `leaving_`
  bool in_listed_sweep_ = false;
  std::span<const Index> cached_from_;  // of the current run, if it defers
  std::vector<Sweep> deferring_;        // that it found, by target
  std::vector<Index> due_;              // of the sweep looked at last
  Index event_ = 0;
  // What an incremental simulator asks for: the values whose states events have read.
  std::span<const Index> due_from_;    // if it defers: as cached_from_, without a list of sweeps
  std::vector<std::uint8_t> is_read_;  // empty: nobody asks
  std::vector<Index> reads_;
  bool reads_all_ = false;
};

/// Replays the event log of `graph` around the values that `keep` holds, byte by byte.
///
/// Guarantees: the activation peak of a step on the same op sequence, equal to the byte on CPU.
/// Throws:     std::invalid_argument if `keep` has another size than graph.values.
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep);
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                                   std::span<const Sweep> sweeps,
                                   std::span<const Offload> offloads = {});

/// The first, also returning live bytes after every event.
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                                   std::vector<std::int64_t>& live_bytes_after_event);

}  // namespace gradrecomp::plan
