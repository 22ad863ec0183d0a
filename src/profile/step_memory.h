#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "tape/tape.h"

namespace gradrecomp::profile {

/// The memory of each device during a profiled step: the blocks that values live in, and what else
/// the step takes, inside ops and outside of them.
///
/// Threads:  callers hold the lock of the step's log.
class StepMemory {
 public:
  /// Where a block counts as long as no value is known to live in it.
  enum class Place { inside_op, outside };

  void add_block(c10::Device device, const void* pointer, std::int64_t bytes, Place place);
  /// Forgets a block that was freed. Returns the value that lived there; -1: none, or the block is
  /// older than the step, or a replay made it.
  tape::ValueId drop_block(c10::Device device, const void* pointer, Place place);

  void op_begins();
  /// Notes what the op took for itself. Call it before adopt().
  void add_op();
  /// Takes from what counts at `place` the blocks that the op's results live in.
  void adopt(const tape::Tape& tape, const tape::Op& op, Place place);
  /// `made_values`: the op is one of the graph. Else all it left behind counts as outside.
  void op_ends(bool made_values);
  /// Appends what was taken and given back outside of ops since the last call.
  void append_outside(std::vector<plan::Event>& events);
  [[nodiscard]] bool has_host_values() const { return has_host_values_; }

  /// Says of the graph's values, ops and events which device they are on. The graph's first is the
  /// accelerator on which autograd saves most, the host comes last; devices on which no op made
  /// anything are left out.
  void assign_devices(plan::Graph& graph, const tape::Tape& tape, bool is_on_device) const;

 private:
  struct Block {
    std::int64_t bytes = 0;
    tape::ValueId value = -1;  // -1: no value lives in it
  };
  struct Span {
    std::int64_t net_bytes = 0;
    std::int64_t peak_bytes = 0;
    void add(std::int64_t bytes);
  };
  struct Memory {
    c10::Device device;
    std::unordered_map<const void*, Block> blocks = {};
    Span outside = {};
    Span inside_op = {};
  };

  static Span& span(Memory& memory, Place place);
  plan::Index memory_of(c10::Device device);
  [[nodiscard]] plan::Index memory_of_value(const tape::Tape& tape, tape::ValueId value) const;
  [[nodiscard]] std::vector<plan::Index> rank(const plan::Graph& graph, bool is_on_device) const;
  void add_transient_bytes(plan::Graph& graph, const std::vector<plan::Index>& ranked) const;

  std::vector<Memory> memories_{{c10::kCPU}};               ///< told apart by position
  std::vector<plan::Index> value_memories_;                 ///< of each value, as far as known
  std::vector<std::vector<std::int64_t>> transient_bytes_;  ///< of each op, by memory
  bool has_host_values_ = false;  ///< some op made a value in the host's memory
};

}  // namespace gradrecomp::profile
