#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::test {

/// The executor's rule once more, as slowly and literally as can be: a set of storages with owners,
/// and what is wanted counted anew after every release.
class ReferenceExecutor {
 public:
  ReferenceExecutor(const plan::Graph& graph, std::span<const std::uint8_t> keep,
                    std::span<const plan::Sweep> sweeps = {})
      : graph_(graph),
        keep_(keep.begin(), keep.end()),
        sweeps_(sweeps.begin(), sweeps.end()),
        handles_(graph.values.size(), 0) {}

  plan::Simulation run() {
    for (std::size_t t = 0; t < graph_.events.size(); ++t) {
      const std::int64_t before = result_.peak_bytes;
      peak(0);
      step(graph_.events[t]);
      peak(0);
      if (result_.peak_bytes > before) result_.peak_event = static_cast<plan::Index>(t);
      live_after_event.push_back(live_bytes());
    }
    return result_;
  }

  std::vector<std::int64_t> live_after_event;

 private:
  using Index = plan::Index;
  enum class Owner { program, tape, cache, plan, sweep };
  struct Storage {
    std::int64_t bytes = 0;
    Index content = -1;
    std::set<Owner> owners;
  };

  [[nodiscard]] std::int64_t live_bytes() const {
    std::int64_t sum = outside_bytes_;
    for (const auto& [id, storage] : storages_) sum += storage.bytes;
    return sum;
  }

  void peak(std::int64_t above) {
    result_.peak_bytes = std::max(result_.peak_bytes, live_bytes() + above);
  }

  /// The storage that has `v` as its content and one of `owners`, or null.
  Storage* find(Index v, const std::set<Owner>& owners) {
    for (auto& [id, storage] : storages_) {
      if (storage.content != v) continue;
      for (const Owner owner : storage.owners) {
        if (owners.contains(owner)) return &storage;
      }
    }
    return nullptr;
  }

  bool lasting(Index v) {
    return graph_.values[v].producer < 0 ||
           find(v, {Owner::program, Owner::tape, Owner::cache, Owner::plan}) != nullptr;
  }

  Storage& allocate(Index v, Owner owner) {
    return storages_[next_id_++] = {graph_.values[v].bytes, v, {owner}};
  }

  void disown(Index v, Owner owner) {
    if (Storage* storage = find(v, {owner})) storage->owners.erase(owner);
    std::erase_if(storages_, [](const auto& entry) { return entry.second.owners.empty(); });
  }

  void step(const plan::Event& event) {
    using plan::EventKind;
    if (event.kind == EventKind::run_op) forward(event.id);
    if (event.kind == EventKind::save) ++handles_[event.id];
    if (event.kind == EventKind::death) disown(event.id, Owner::program);
    if (event.kind == EventKind::seal) seal();
    if (event.kind == EventKind::demand && !lasting(event.id)) sweep(event.id);
    if (event.kind == EventKind::outside) {
      peak(event.peak_bytes);
      outside_bytes_ += event.net_bytes;
    }
    if (event.kind == EventKind::pass_end) end_pass();
    if (event.kind != EventKind::release) return;
    if (--handles_[event.id] == 0) disown(event.id, Owner::cache);
    release_unwanted();
  }

  void end_pass() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      disown(static_cast<Index>(v), Owner::cache);
      disown(static_cast<Index>(v), Owner::plan);
    }
  }

  void forward(Index i) {
    const plan::Op& op = graph_.ops[i];
    for (const Index w : op.outputs) {
      const Index u = graph_.values[w].overwrites;
      if (u < 0) continue;
      Storage* storage = find(u, {Owner::program});
      storage->content = w;
      storage->owners = {Owner::program};
      if (graph_.values[u].snapshot) allocate(u, Owner::tape);
    }
    if (!op.is_part) peak(op.transient_bytes);
    for (const Index w : op.outputs) {
      if (graph_.values[w].overwrites < 0) allocate(w, Owner::program);
      const bool keepable = keep_[w] != 0 && graph_.values[w].overwritten_by < 0;
      if (keepable || graph_.values[w].must_keep) {
        find(w, {Owner::program})->owners.insert(Owner::tape);
      }
    }
  }

  void seal() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      dropped_.push_back(find(static_cast<Index>(v), {Owner::tape}) == nullptr);
    }
    release_unwanted();
    result_.seal_bytes = live_bytes();
  }

  void release_unwanted() {
    if (dropped_.empty()) return;
    const std::vector<int> wanted = count_wanted();
    for (std::size_t v = 0; v < wanted.size(); ++v) {
      if (wanted[v] > 0) continue;
      disown(static_cast<Index>(v), Owner::tape);
      disown(static_cast<Index>(v), Owner::plan);
    }
  }

  [[nodiscard]] std::vector<int> count_wanted() const {
    std::vector<int> wanted = handles_;
    for (std::size_t i = graph_.ops.size(); i-- > 0;) {
      bool replayed = false;
      for (const Index w : graph_.ops[i].outputs) replayed |= dropped_[w] && wanted[w] > 0;
      for (const Index u : graph_.ops[i].inputs) wanted[u] += replayed ? 1 : 0;
    }
    return wanted;
  }

  void need(Index v, std::set<Index>& ops) {
    if (lasting(v)) return;
    if (graph_.values[v].must_keep) throw std::logic_error("reference: must_keep value is gone");
    if (!ops.insert(graph_.values[v].producer).second) return;
    for (const Index u : graph_.ops[graph_.values[v].producer].inputs) need(u, ops);
  }

  static bool reads(const plan::Op& op, Index v) { return std::ranges::count(op.inputs, v) > 0; }

  void sweep(Index target) {
    std::set<Index> left;
    need(target, left);
    last_replayed_ = -1;
    while (!left.empty()) {
      const Index i = *left.begin();
      left.erase(left.begin());
      replay(i, target, left);
    }
  }

  bool read_later(Index v, const std::set<Index>& left) {
    return std::ranges::any_of(left, [&](Index i) { return reads(graph_.ops[i], v); });
  }

  void replay(Index i, Index target, const std::set<Index>& left) {
    const plan::Op& op = graph_.ops[i];
    const bool joined = joins(i, left);
    if (!joined) make_outputs(op, left);
    for (const Index w : op.outputs) settle_output(w, target, left);
    for (const Index u : op.inputs) {
      if (!read_later(u, left)) disown(u, Owner::sweep);
    }
    result_.replay_seconds += joined ? op.joined_seconds : op.replay_seconds;
    result_.replay_flops += op.flops;
    result_.replay_bytes_moved += op.bytes_moved;
    ++result_.num_replayed_ops;
    last_replayed_ = i;
  }

  /// Whether op `i` gets the storage that the op before it has made for it; it then has it.
  bool joins(Index i, const std::set<Index>& left) {
    if (!graph_.ops[i].joins || last_replayed_ != i - 1) return false;
    const Index before = graph_.ops[i - 1].outputs.front();
    Storage* storage = lasting(before) ? nullptr : find(before, {Owner::sweep});
    if (storage == nullptr || read_later(before, left)) return false;
    storage->content = graph_.ops[i].outputs.front();
    storage->bytes = graph_.values[storage->content].bytes;
    peak(0);
    return true;
  }

  void make_outputs(const plan::Op& op, const std::set<Index>& left) {
    for (const Index w : op.outputs) {
      const Index u = graph_.values[w].overwrites;
      if (u < 0) continue;
      Storage* temporary = lasting(u) ? nullptr : find(u, {Owner::sweep});
      if (temporary == nullptr || read_later(u, left)) {
        temporary = &allocate(w, Owner::sweep);
      }
      temporary->content = w;
    }
    if (!op.by_kernel) peak(op.transient_bytes);
    for (const Index w : op.outputs) {
      if (graph_.values[w].overwrites < 0) allocate(w, Owner::sweep);
    }
    peak(0);
  }

  void settle_output(Index w, Index target, const std::set<Index>& left) {
    const bool duplicate = lasting(w);
    const auto cache = duplicate ? std::nullopt : cache_of(w, target);
    if (cache) {
      find(w, {Owner::sweep})->owners = {*cache};
    } else if (duplicate || (!read_later(w, left) && w != target)) {
      disown(w, Owner::sweep);
    }
  }

  /// Who takes over what the sweep of `target` has made, if anything does.
  [[nodiscard]] std::optional<Owner> cache_of(Index w, Index target) const {
    const auto listed = std::ranges::find(sweeps_, target, &plan::Sweep::target);
    const bool is_listed = listed != sweeps_.end();
    if (is_listed && std::ranges::count(listed->cached, w) > 0 && count_wanted()[w] > 0) {
      return Owner::plan;
    }
    if (handles_[w] > 0 && (!is_listed || w == target)) return Owner::cache;
    return std::nullopt;
  }

  const plan::Graph& graph_;
  std::vector<std::uint8_t> keep_;
  std::vector<plan::Sweep> sweeps_;
  std::vector<int> handles_;
  std::vector<bool> dropped_;
  std::map<int, Storage> storages_;
  int next_id_ = 0;
  Index last_replayed_ = -1;  // in the current sweep
  std::int64_t outside_bytes_ = 0;
  plan::Simulation result_;
};

}  // namespace gradrecomp::test
