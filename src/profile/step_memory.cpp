#include "profile/step_memory.h"

#include <algorithm>
#include <utility>

#include "tape/versions.h"

namespace gradrecomp::profile {

using tape::Tape;
using tape::ValueId;

void StepMemory::Span::add(std::int64_t bytes) {
  net_bytes += bytes;
  peak_bytes = std::max(peak_bytes, net_bytes);
}

StepMemory::Span& StepMemory::span(Memory& memory, Place place) {
  return place == Place::inside_op ? memory.inside_op : memory.outside;
}

plan::Index StepMemory::memory_of(c10::Device device) {
  const auto known = std::ranges::find(memories_, device, &Memory::device);
  const auto place = static_cast<plan::Index>(known - memories_.begin());
  if (known == memories_.end()) memories_.push_back({device});
  return place;
}

void StepMemory::add_block(c10::Device device, const void* pointer, std::int64_t bytes,
                           Place place) {
  Memory& memory = memories_[memory_of(device)];
  memory.blocks[pointer] = {bytes, -1};
  span(memory, place).add(bytes);
}

ValueId StepMemory::drop_block(c10::Device device, const void* pointer, Place place) {
  Memory& memory = memories_[memory_of(device)];
  const auto block = memory.blocks.find(pointer);
  if (block == memory.blocks.end()) return -1;
  const auto [bytes, value] = block->second;
  memory.blocks.erase(block);
  if (value < 0) span(memory, place).add(-bytes);
  return value;
}

void StepMemory::op_begins() {
  for (Memory& memory : memories_) memory.inside_op = {};
}

void StepMemory::add_op() {
  auto& transient_bytes = transient_bytes_.emplace_back();
  for (const Memory& memory : memories_) transient_bytes.push_back(memory.inside_op.peak_bytes);
}

// Blocks that results live in are the simulator's; what else the op left behind is outside memory.
void StepMemory::adopt(const Tape& tape, const tape::Op& op, Place place) {
  value_memories_.resize(tape.values().size(), -1);
  for (const tape::Result& result : op.results) {
    const tape::Value& value = tape.values()[result.value];
    const auto storage = value.owner.lock();
    if (!storage) continue;
    value_memories_[result.value] = memory_of(storage->device());
    if (value.external) continue;
    Memory& memory = memories_[value_memories_[result.value]];
    has_host_values_ |= memory.device.is_cpu();
    const auto block = memory.blocks.find(storage->data());
    if (block == memory.blocks.end()) continue;
    if (block->second.value < 0) span(memory, place).net_bytes -= block->second.bytes;
    block->second.value = result.value;
  }
}

void StepMemory::op_ends(bool made_values) {
  for (Memory& memory : memories_) {
    if (made_values) {
      memory.outside.add(memory.inside_op.net_bytes);
    } else {
      memory.outside = memory.inside_op;
    }
  }
}

void StepMemory::append_outside(std::vector<plan::Event>& events) {
  for (std::size_t m = 0; m < memories_.size(); ++m) {
    const Span outside = std::exchange(memories_[m].outside, {});
    if (outside.net_bytes == 0 && outside.peak_bytes == 0) continue;
    events.push_back({plan::EventKind::outside, -1, outside.net_bytes, outside.peak_bytes,
                      static_cast<plan::Index>(m)});
  }
}

// Values that overwrite each other share memory, so where one of them is known to be, all are.
plan::Index StepMemory::memory_of_value(const Tape& tape, ValueId value) const {
  for (ValueId id = tape::last_in_memory(tape, value); id >= 0; id = tape.values()[id].overwrites) {
    const auto place = static_cast<std::size_t>(id);
    const bool is_known = place < value_memories_.size() && value_memories_[place] >= 0;
    if (is_known) return value_memories_[place];
  }
  return 0;
}

/// The memories that count, the graph's first device first.
std::vector<plan::Index> StepMemory::rank(const plan::Graph& graph, bool is_on_device) const {
  std::vector<std::int64_t> made(memories_.size(), 0);
  std::vector<std::int64_t> saved(memories_.size(), 0);
  for (const plan::Value& value : graph.values) {
    made[value.device] += value.bytes;
    saved[value.device] += value.saved ? value.bytes : 0;
  }
  std::vector<plan::Index> ranked;
  for (std::size_t m = 0; m < memories_.size(); ++m) {
    if (made[m] > 0) ranked.push_back(static_cast<plan::Index>(m));
  }
  // Where nothing takes memory, a plan has none to save on any device.
  if (ranked.empty()) ranked.push_back(is_on_device && memories_.size() > 1 ? 1 : 0);
  std::ranges::stable_sort(ranked, [&](plan::Index a, plan::Index b) {
    const bool a_is_host = memories_[a].device.is_cpu();
    const bool b_is_host = memories_[b].device.is_cpu();
    return a_is_host != b_is_host ? b_is_host : saved[a] > saved[b];
  });
  return ranked;
}

void StepMemory::assign_devices(plan::Graph& graph, const Tape& tape, bool is_on_device) const {
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    graph.values[id].device = memory_of_value(tape, static_cast<ValueId>(id));
  }
  const auto ranked = rank(graph, is_on_device);
  std::vector<plan::Index> ranks(memories_.size(), -1);
  for (std::size_t d = 0; d < ranked.size(); ++d) ranks[ranked[d]] = static_cast<plan::Index>(d);
  for (plan::Value& value : graph.values) value.device = std::max(ranks[value.device], 0);
  std::erase_if(graph.events, [&](const plan::Event& event) {
    return ranks[event.device] < 0 && event.kind == plan::EventKind::outside;
  });
  for (plan::Event& event : graph.events) {
    if (event.kind == plan::EventKind::outside) event.device = ranks[event.device];
  }
  add_transient_bytes(graph, ranked);
  if (ranked.size() == 1) return;
  for (const plan::Index m : ranked) graph.devices.push_back(memories_[m].device.str());
}

void StepMemory::add_transient_bytes(plan::Graph& graph,
                                     const std::vector<plan::Index>& ranked) const {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto& known = transient_bytes_[i];
    // A memory that was first seen after the op had none of it.
    const auto of_memory = [&](plan::Index m) {
      return static_cast<std::size_t>(m) < known.size() ? known[m] : 0;
    };
    plan::Op& op = graph.ops[i];
    op.transient_bytes = of_memory(ranked.front());
    for (std::size_t d = 1; d < ranked.size(); ++d) {
      op.further_transient_bytes.push_back(of_memory(ranked[d]));
    }
  }
}

}  // namespace gradrecomp::profile
