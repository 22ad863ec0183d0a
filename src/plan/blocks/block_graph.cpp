#include "block_graph.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

// Note [ Blocks as steps ]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What a block's choices do can be seen without the rest of the network: cut out its ops and the
// events of its values, and let op 0 stand for all blocks before it. That op costs nothing and
// makes, in no bytes, the values that cross into the block; a plan that drops them shows when the
// first replay reaches across. Backward begins with the demand of what the block hands on, as a
// later block's replay makes it; where that is kept, nothing happens. Then come the events of the
// block's backward: from the first demand of a value that ops of this block are the last to use, to
// that of one whose last user is in an earlier block. They start from the memory that belongs to no
// value then. Memory that lives on when the region ends, such as its outputs, is counted there too.
//
// Values that cross more than one cut are kept beforehand, as no chain of blocks describes them.

namespace gradrecomp::plan {
namespace {

class Extractor {
 public:
  Extractor(const Graph& graph, const Blocks& blocks, std::span<const Constraint> constraints,
            std::int64_t tiny_bytes)
      : graph_(graph),
        blocks_(blocks),
        constraints_(constraints),
        tiny_bytes_(tiny_bytes),
        at_work_(find_blocks_at_work(graph, blocks)),
        local_(graph.values.size(), -1),
        resident_(graph.values.size(), 1),
        resized_(graph.values.size(), -1),
        events_of_(blocks.blocks.size()) {
    find_start();
    find_residents();
    find_resident_bytes();
    sort_events();
  }

  BlockGraph extract(Index block) {
    relaying_ = may_relay(block);
    BlockGraph relayed = relaying_ ? build(block) : BlockGraph{};
    relaying_ = false;
    BlockGraph made = build(block);
    made.relay = std::move(relayed.relay);
    made.relay.graph = std::move(relayed.graph);
    made.relay.sweep_end = relayed.sweep_end;
    made.inputs_may_be_relayed = block > 0 && may_relay(block - 1);
    return made;
  }

 private:
  /// Whether the block hands on a single value, and backward demands it.
  [[nodiscard]] bool may_relay(Index block) const {
    const std::vector<Index> values = handed_on(block);
    return blocks_.are_clean && values.size() == 1 && is_large(values.front()) &&
           value(values.front()).saved;
  }

  BlockGraph build(Index block) {
    made_ = {};
    made_.graph.stages = {{"block"}};
    add_inputs(block);
    const Block& ops = blocks_.blocks[block];
    for (Index i = ops.begin_op; i < ops.end_op; ++i) add_op(i, i == ops.begin_op);
    add_forward(block);
    add_sweep(block);
    add_backward(block);
    find_choices(block);
    for (const Index v : made_.global) local_[v] = -1;
    return std::move(made_);
  }

  [[nodiscard]] const Value& value(Index v) const { return graph_.values[v]; }
  [[nodiscard]] Index num_events() const { return static_cast<Index>(graph_.events.size()); }

  void find_start() {
    while (graph_.events[seal_].kind != EventKind::seal) ++seal_;
    start_.assign(blocks_.blocks.size(), num_events());
    for (Index t = num_events() - 1; t > seal_; --t) start_[at_work_[t]] = t;
  }

  /// A value is resident if the program still owns it when the region ends.
  void find_residents() {
    for (Index t = 0; t < seal_; ++t) {
      if (graph_.events[t].kind == EventKind::death) resident_[graph_.events[t].id] = 0;
    }
    for (std::size_t v = graph_.values.size(); v-- > 0;) {
      const Index next = value(static_cast<Index>(v)).overwritten_by;
      if (next < 0) continue;
      const bool has_its_memory = value(next).overwrites == static_cast<Index>(v);
      if (has_its_memory) resident_[v] = resident_[next];
      if (!has_its_memory) resized_[next] = static_cast<Index>(v);
    }
  }

  void find_resident_bytes() {
    std::int64_t bytes = 0;
    for (const Value& v : graph_.values) {
      const bool owned = v.producer >= 0 && v.overwritten_by < 0;
      bytes += owned && resident_[&v - graph_.values.data()] != 0 ? v.bytes : 0;
    }
    for (Index t = 0; t < num_events(); ++t) {
      resident_bytes_.push_back(bytes);
      const Event& event = graph_.events[t];
      if (event.kind == EventKind::outside) bytes += event.net_bytes;
      if (event.kind == EventKind::death && t > seal_) bytes -= value(event.id).bytes;
    }
    resident_bytes_.push_back(bytes);
  }

  /// Each block's events: those while it is at work, and of the values it makes wherever they are.
  void sort_events() {
    for (Index t = 0; t < num_events(); ++t) {
      const Event& event = graph_.events[t];
      if (event.kind == EventKind::seal) continue;
      if (event.kind == EventKind::pass_end) {
        for (std::vector<Index>& events : events_of_) events.push_back(t);
        continue;
      }
      const bool of_value = event.kind != EventKind::outside && event.kind != EventKind::run_op;
      const Index maker = of_value ? blocks_.made_in[event.id] : -1;
      if (maker >= 0) events_of_[maker].push_back(t);
      if (at_work_[t] != maker) events_of_[at_work_[t]].push_back(t);
    }
  }

  Index add_value(Index v) {
    const auto id = static_cast<Index>(made_.graph.values.size());
    made_.graph.values.push_back({});
    made_.global.push_back(v);
    made_.keep.push_back(1);
    local_[v] = id;
    return id;
  }

  void add_op_event(Index op) {
    made_.graph.events.push_back({.kind = EventKind::run_op, .id = op});
  }
  void add_event(EventKind kind, Index v) {
    made_.graph.events.push_back({.kind = kind, .id = local_[v]});
  }

  /// What the block reads of earlier blocks: droppable values are made by op 0.
  void add_inputs(Index block) {
    Op earlier;
    earlier.name = "earlier blocks";
    const std::vector<Index> handed = handed_on(block - 1);
    for (const Index v : handed) {
      const Index id = add_value(v);
      made_.graph.values[id].producer = 0;
      earlier.outputs.push_back(id);
    }
    const Block& ops = blocks_.blocks[block];
    for (Index i = ops.begin_op; i < ops.end_op; ++i) {
      for (const Index u : graph_.ops[i].inputs) {
        if (value(u).producer < ops.begin_op && local_[u] < 0) add_value(u);
      }
    }
    if (earlier.outputs.empty()) return;
    made_.inputs = earlier.outputs;
    made_.num_large_inputs = num_large(handed);
    made_.graph.ops.push_back(std::move(earlier));
    add_op_event(0);
  }

  [[nodiscard]] bool is_large(Index v) const { return value(v).bytes >= tiny_bytes_; }
  [[nodiscard]] std::size_t num_large(const std::vector<Index>& values) const {
    return std::ranges::count_if(values, [this](Index v) { return is_large(v); });
  }

  /// What a plan may drop of that which a block hands on to the next one, large values first.
  [[nodiscard]] std::vector<Index> handed_on(Index block) const {
    std::vector<Index> values;
    if (block < 0 || block + 1 == static_cast<Index>(blocks_.blocks.size())) return values;
    for (const Index v : blocks_.blocks[block].boundary) {
      const Value& x = value(v);
      const bool can_drop = is_own(v, block) && !x.must_keep && !x.snapshot && resident_[v] == 0;
      if (!can_drop || constraints_[v] == Constraint::keep ||
          blocks_.first_demanded_in[v] > block + 1)
        continue;
      values.push_back(v);
    }
    std::stable_partition(values.begin(), values.end(), [this](Index v) { return is_large(v); });
    return values;
  }

  void add_op(Index i, bool is_first) {
    Op op = graph_.ops[i];
    const auto id = static_cast<Index>(made_.graph.ops.size());
    op.stage = 0;
    op.joins = op.joins && !is_first;  // the op before it is in another block
    op.joined_seconds = op.joins ? op.joined_seconds : 0;
    for (Index& u : op.inputs) u = local_[u];
    for (Index& w : op.outputs) w = add_output(w, id);
    made_.graph.ops.push_back(std::move(op));
  }

  Index add_output(Index w, Index op) {
    const Index id = add_value(w);
    Value x = value(w);
    x.producer = op;
    if (resident_[w] != 0) x.bytes = 0;
    x.overwritten_by = -1;
    if (resized_[w] >= 0) made_.graph.values[local_[resized_[w]]].overwritten_by = id;
    if (x.overwrites >= 0) {
      const Index u = local_[x.overwrites];
      // A version that an earlier block made is external here, and takes the bytes of its storage.
      Value& before = made_.graph.values[u];
      if (before.producer < 0) before.bytes = x.bytes;
      before.overwritten_by = id;
      x.overwrites = u;
    }
    made_.graph.values[id] = x;
    return id;
  }

  [[nodiscard]] bool is_own(Index v, Index block) const { return blocks_.made_in[v] == block; }
  [[nodiscard]] bool is_input(Index v) const {
    return local_[v] >= 0 && made_.graph.values[local_[v]].producer == 0 && !made_.inputs.empty();
  }

  void add_forward(Index block) {
    Index next_op = made_.inputs.empty() ? 0 : 1;
    for (const Index t : events_of_[block]) {
      const Event& event = graph_.events[t];
      if (t > seal_) {
        const bool releases_input = event.kind == EventKind::release && at_work_[t] == block;
        if (releases_input && is_input(event.id)) add_event(EventKind::save, event.id);
        continue;
      }
      if (event.kind == EventKind::run_op) add_op_event(next_op++);
      if (event.kind == EventKind::outside) add_outside(event.net_bytes, event.peak_bytes);
      const bool of_value = event.kind == EventKind::save || event.kind == EventKind::death;
      if (of_value && is_own(event.id, block)) add_event(event.kind, event.id);
    }
    for (const Index id : made_.inputs) {
      // One handle more than is released here: the last release may come while another block is at
      // work.
      add_event(EventKind::save, made_.global[id]);
      add_event(EventKind::death, made_.global[id]);
    }
  }

  /// The end of forward, and what a later block makes of this one if its boundary was dropped.
  void add_sweep(Index block) {
    const std::vector<Index> values = handed_on(block);
    made_.num_large_boundary = num_large(values);
    for (const Index v : values) {
      made_.boundary.push_back(local_[v]);
      if (!relaying_) add_event(EventKind::save, v);
    }
    if (relaying_) return add_relays(values.front());
    made_.graph.events.push_back({.kind = EventKind::seal});
    for (const Index v : values) add_event(EventKind::demand, v);
    for (const Index v : values) add_event(EventKind::release, v);
    made_.sweep_end = static_cast<Index>(made_.graph.events.size());
  }

  /// Two later ops that read the boundary, demanded one after the other, and its own demand.
  void add_relays(Index boundary) {
    std::vector<Event>& events = made_.graph.events;
    std::array<Index, 2> relays{};
    for (Index& relay : relays) {
      const auto op = static_cast<Index>(made_.graph.ops.size());
      relay = static_cast<Index>(made_.graph.values.size());
      made_.graph.values.push_back({.producer = op, .saved = true});
      made_.graph.ops.push_back(
          {.name = "later blocks", .inputs = {local_[boundary]}, .outputs = {relay}});
      add_op_event(op);
      events.push_back({.kind = EventKind::save, .id = relay});
      events.push_back({.kind = EventKind::death, .id = relay});
    }
    events.push_back({.kind = EventKind::seal});
    for (const Index relay : relays) {
      made_.relay.first_end = made_.relay.second_end;
      events.push_back({.kind = EventKind::demand, .id = relay});
      events.push_back({.kind = EventKind::release, .id = relay});
      made_.relay.second_end = static_cast<Index>(events.size());
    }
    add_event(EventKind::demand, boundary);
    made_.sweep_end = static_cast<Index>(events.size());
  }

  void add_backward(Index block) {
    const Index start = start_[block];
    for (const Index t : events_of_[block]) {
      const Event& event = graph_.events[t];
      const bool early = event.kind == EventKind::release && t > seal_ && t < start;
      if (early && is_own(event.id, block)) add_event(EventKind::release, event.id);
    }
    add_outside(resident_bytes_[start], resident_bytes_[start]);
    for (const Index t : events_of_[block]) {
      if (t >= start && t > seal_) add_backward_event(t, block);
    }
  }

  void add_backward_event(Index t, Index block) {
    const Event& event = graph_.events[t];
    const bool at_work = at_work_[t] == block;
    if (event.kind == EventKind::pass_end) return made_.graph.events.push_back(event);
    if (event.kind == EventKind::outside) return add_outside(event.net_bytes, event.peak_bytes);
    if (event.kind == EventKind::death) {
      if (at_work) add_outside(-value(event.id).bytes, 0);
      return;
    }
    const bool of_value = event.kind == EventKind::demand || event.kind == EventKind::release;
    if (!of_value) return;
    if (is_own(event.id, block) || (at_work && is_input(event.id))) {
      add_event(event.kind, event.id);
    }
  }

  /// Joins runs of outside events.
  void add_outside(std::int64_t net_bytes, std::int64_t peak_bytes) {
    std::vector<Event>& events = made_.graph.events;
    if (!events.empty() && events.back().kind == EventKind::outside) {
      Event& last = events.back();
      last.peak_bytes = std::max(last.peak_bytes, last.net_bytes + peak_bytes);
      last.net_bytes += net_bytes;
      return;
    }
    events.push_back({EventKind::outside, -1, net_bytes, peak_bytes});
  }

  void find_choices(Index block) {
    const Block& ops = blocks_.blocks[block];
    for (Index i = ops.begin_op; i < ops.end_op; ++i) {
      for (const Index v : graph_.ops[i].outputs) {
        const Value& x = value(v);
        if (constraints_[v] == Constraint::drop) made_.keep[local_[v]] = 0;
        if (constraints_[v] != Constraint::open || x.must_keep || x.overwritten_by >= 0) continue;
        if (resident_[v] != 0 || blocks_.first_demanded_in[v] > block || !is_large(v)) continue;
        made_.choices.push_back(local_[v]);
      }
    }
  }

  const Graph& graph_;
  const Blocks& blocks_;
  std::span<const Constraint> constraints_;
  std::int64_t tiny_bytes_;
  std::vector<Index> at_work_;
  std::vector<Index> local_;
  std::vector<std::uint8_t> resident_;
  std::vector<Index> resized_;  // per value: the one it replaces in other memory; -1: none
  std::vector<std::vector<Index>> events_of_;
  std::vector<std::int64_t> resident_bytes_;  ///< live before each event, kept values aside
  std::vector<Index> start_;                  ///< per block: first event of its backward
  Index seal_ = 0;
  bool relaying_ = false;
  BlockGraph made_;
};

}  // namespace

std::vector<Index> find_blocks_at_work(const Graph& graph, const Blocks& blocks) {
  std::vector<Index> at_work;
  Index block = 0;
  bool sealed = false;
  for (const Event& event : graph.events) {
    if (event.kind == EventKind::run_op) block = blocks.of_op[event.id];
    // A further pass begins at the last block again.
    if (event.kind == EventKind::seal || event.kind == EventKind::pass_end) {
      sealed = true;
      block = static_cast<Index>(blocks.blocks.size()) - 1;
    }
    if (sealed && event.kind == EventKind::demand)
      block = std::min(block, blocks.first_demanded_in[event.id]);
    at_work.push_back(block);
  }
  return at_work;
}

std::vector<BlockGraph> make_block_graphs(const Graph& graph, const Blocks& blocks,
                                          std::span<const Constraint> constraints,
                                          std::int64_t tiny_bytes) {
  Extractor extractor(graph, blocks, constraints, tiny_bytes);
  std::vector<BlockGraph> made;
  for (std::size_t b = 0; b < blocks.blocks.size(); ++b) {
    made.push_back(extractor.extract(static_cast<Index>(b)));
  }
  return made;
}

}  // namespace gradrecomp::plan
