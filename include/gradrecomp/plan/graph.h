#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/export.h"

/// What the planner knows of one recorded training step. No Torch here.
namespace gradrecomp::plan {

/// Position of an op, value or stage in its vector; -1 stands for "none".
using Index = std::int32_t;

/// One storage at one content version. An in-place op makes a new value in an old storage.
struct Value {
  std::int64_t bytes = 0;  ///< storage bytes as the allocator counts them; 0 for external values
  Index producer = -1;     ///< op that makes it; -1: external (read in the region, not made there)
  Index overwrites = -1;   ///< value whose storage it took over in place; -1: a storage of its own
  /// Value that took over its storage, and its memory, unless that was resized: then the other's
  /// `overwrites` is -1. Such a value cannot be kept.
  Index overwritten_by = -1;
  bool must_keep = false;  ///< cannot be replayed, or its replay was found to differ
  bool snapshot = false;   ///< cloned and held when overwritten, because its content is a source
  bool saved = false;      ///< autograd has a handle on it when the forward pass ends
  Index device = 0;        ///< whose memory it is in; position in Graph::devices
  bool rounds = false;     ///< float32 throughout: a plan that may lose bits may round it
  bool exact = false;      ///< integers, a mask or drawn: must not be replayed from rounded values
  bool operator==(const Value&) const = default;
};

/// One recorded operator call.
struct Op {
  std::string name;  ///< below-autograd name, e.g. "aten::convolution"
  Index stage = 0;
  std::vector<Index> inputs;   ///< distinct values read, in-place targets included
  std::vector<Index> outputs;  ///< values made, in fresh storages and in place
  double forward_seconds = 0;
  double replay_seconds = 0;  ///< measured by replaying it once
  double flops = 0;           ///< 1 multiply-add = 2; convolution, GEMM, attention and RNN only
  double bytes_moved = 0;     ///< tensor bytes read and written
  /// Most bytes live inside it above its start, outputs included; of the main device.
  std::int64_t transient_bytes = 0;
  /// The same of devices 1, 2, ... of Graph::devices; empty: 0 on each.
  std::vector<std::int64_t> further_transient_bytes = {};
  bool is_part = false;  ///< made by the call of the ops before it; in forward its bytes are theirs
  bool by_kernel = false;  ///< replays do not call it, and need no bytes but their outputs
  /// A replay writes the only output over the only one of the op right before it, where both are
  /// replayed and nothing else wants that: with no memory of its own, in `joined_seconds`.
  bool joins = false;
  double joined_seconds = 0;  ///< at most `replay_seconds`; 0 unless it joins
  bool operator==(const Op&) const = default;
};

/// What happened in the profiled step, in order. Bytes of values are not in `outside` events.
enum class EventKind : std::uint8_t {
  run_op,    ///< forward ran op `id`
  save,      ///< autograd took a handle on value `id`
  death,     ///< the program itself let go of the storage that value `id` is the content of
  outside,   ///< memory outside all values: `net_bytes` remain, `peak_bytes` at most in between
  seal,      ///< the region ended
  demand,    ///< backward unpacked a handle on value `id`
  release,   ///< backward let go of a handle on value `id`
  pass_end,  ///< a backward pass ended that was not the last: what replays left behind goes
};

struct Event {
  EventKind kind = EventKind::outside;
  Index id = -1;
  std::int64_t net_bytes = 0;
  std::int64_t peak_bytes = 0;
  Index device = 0;  ///< whose memory `outside` memory is; position in Graph::devices
  bool operator==(const Event&) const = default;
};

struct Stage {
  std::string name;
  bool operator==(const Stage&) const = default;
};

/// The op graph and event log of one profiled step: the planner's whole input.
struct Graph {
  std::vector<Stage> stages;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Event> events;
  double step_seconds = 0;      ///< plain step: forward + backward, without replays
  double step_flops = 0;        ///< plain step: forward + backward
  std::uint64_t signature = 0;  ///< hash of the op sequence (names, shapes, wiring)
  /// Names of the devices that ops make values on, "cuda:0", the main one first; empty: just one.
  std::vector<std::string> devices = {};
};

/// At least 1.
inline Index num_devices(const Graph& graph) {
  return graph.devices.empty() ? 1 : static_cast<Index>(graph.devices.size());
}

/// `graph` as one of a single device, on which values and memory of all others take no bytes.
///
/// Its ops, values and events are at the same positions, so that plans of the one are plans of the
/// other, and the costs of replays are the same. Functions that name no device count bytes of the
/// main one: on_device(graph, 0).
/// Throws:  std::invalid_argument if there is no such device.
GRADRECOMP_API Graph on_device(const Graph& graph, Index device);

/// Checks indices, bytes, costs, the order of events and that no replay reads what is lost.
/// Throws:  std::invalid_argument naming the first op, value or event at fault.
GRADRECOMP_API void validate(const Graph& graph);

}  // namespace gradrecomp::plan
