#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "plan/bounds/lives.h"

namespace gradrecomp::plan {

/// Tracked values that are alive at an op.
inline constexpr std::size_t kMostAtOnce = 12;

/// A value that partial plans decide about; see Note [ Programs over ops ] in op_program.cpp.
struct TrackedValue {
  Index producer = -1;
  Index entry = -1;         ///< at which op the program decides about it, or a later one
  Index first_reader = -1;  ///< -1: no op reads it
  bool demanded = false;    ///< backward asks for it
  bool choosable = false;   ///< plans may keep it, and replays leave it behind
  /// That it is held pays by loads alone; see Note [ Values not worth holding ] in
  /// tracked_step.cpp.
  bool pays_by_loads = false;
  Index made_of_it_dies = -1;  ///< then: the event at which the first of that does
  bool made_if_left = false;   ///< by prices: a visit that leaves it behind makes it unasked, too
  bool has_sibling = false;    ///< its op makes other values, too
  std::int64_t bytes = 0;
  std::int64_t passing_bytes = 0;  ///< in a replay that only passes through
  std::int64_t kept_bytes = 0;     ///< if kept, in each moment of the ops behind its entry
  Life life = {};

  /// The last event at which it needs its bytes, if a replay makes it.
  [[nodiscard]] Index end_if_made() const {
    return demanded ? life.end_if_replayed() : life.release;
  }
};

/// An event at which live bytes are compared to a limit.
struct Moment {
  Index event = -1;
  std::int64_t base_bytes = 0;  ///< live then under every plan
  bool in_backward = false;
  Index demanded = -1;  ///< tracked value that backward asks for then, for the first time
};

/// A recorded step as a program over its ops reads it: what is decided at each op, and when.
///
/// Values that are not tracked take no bytes and are always there, so that less is proven: small
/// ones, ones that the program holds on to, and the smallest where too many are alive at once.
class TrackedStep {
 public:
  explicit TrackedStep(const Graph& graph);

  /// Whether a program can read it: one backward pass, behind the whole forward pass, that asks for
  /// nothing which the program let go of in it, nor for more values than may be alive at once.
  [[nodiscard]] bool is_simple() const { return is_simple_; }

  [[nodiscard]] Index num_ops() const { return static_cast<Index>(inputs_.size()); }
  [[nodiscard]] const std::vector<TrackedValue>& values() const { return values_; }
  [[nodiscard]] const TrackedValue& value(Index tracked) const { return values_[tracked]; }
  /// The tracked ones among the values that `op` reads, and does not make.
  [[nodiscard]] const std::vector<Index>& inputs(Index op) const { return inputs_[op]; }
  [[nodiscard]] const std::vector<Index>& outputs(Index op) const { return outputs_[op]; }
  /// The values whose entry is `op`.
  [[nodiscard]] const std::vector<Index>& entering(Index op) const { return entering_[op]; }
  /// Bytes of all that enters at ops before `op`.
  [[nodiscard]] std::int64_t bytes_before(Index op) const { return bytes_before_[op]; }
  /// Those at which nothing that enters before `op` differs from one moment to another; for
  /// num_ops(), those at which nothing does. Ascending by event.
  [[nodiscard]] const std::vector<Moment>& moments(Index op) const { return moments_[op]; }
  /// Per event of the graph, live bytes under every plan.
  [[nodiscard]] const std::vector<std::int64_t>& base_bytes() const { return base_bytes_; }

 private:
  void find_phases(const Graph& graph);
  void find_values(const Graph& graph, const std::vector<std::vector<Index>>& readers,
                   const std::vector<Life>& lives);
  void add_base(const Value& value, const Life& life);
  void find_entries(const Graph& graph);
  [[nodiscard]] bool drop_smallest_of_many();
  void list_values(const Graph& graph);
  void list_moments(const Graph& graph);

  bool is_simple_ = true;
  Index seal_ = -1;
  std::vector<Index> run_events_;  ///< per op
  std::vector<std::int64_t> base_bytes_;
  std::vector<TrackedValue> values_;
  std::vector<Index> tracked_of_;   ///< per value of the graph, -1: none
  std::vector<Index> op_of_event_;  ///< whose moments an event is among
  std::vector<std::vector<Index>> inputs_;
  std::vector<std::vector<Index>> outputs_;
  std::vector<std::vector<Index>> entering_;
  std::vector<std::int64_t> bytes_before_;
  std::vector<std::vector<Moment>> moments_;
};

}  // namespace gradrecomp::plan
