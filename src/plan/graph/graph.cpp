#include "gradrecomp/plan/graph.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "plan/error.h"
#include "plan/graph/choosable_values.h"

namespace gradrecomp::plan {
namespace {

const char* const kReport = "A profiled graph always is; GradRecomp bug, please report";

/// Checks one graph; the members are what the checks of ops and events need to remember.
class Validator {
 public:
  explicit Validator(const Graph& graph) : graph_(graph), handles_(graph.values.size(), 0) {}

  void run() {
    check_step();
    check_devices();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) check_value(static_cast<Index>(v));
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) check_op(static_cast<Index>(i));
    for (std::size_t t = 0; t < graph_.events.size(); ++t) check_event(t);
    if (next_op_ != num_ops()) fail("num run_op events", next_op_, "the number of ops");
    if (!sealed_) fail("num seal events", 0, "1");
    check_replays();
  }

 private:
  [[nodiscard]] Index num_ops() const { return static_cast<Index>(graph_.ops.size()); }
  [[nodiscard]] Index num_values() const { return static_cast<Index>(graph_.values.size()); }
  [[nodiscard]] bool is_value(Index v) const { return v >= 0 && v < num_values(); }
  [[nodiscard]] const Value& value(Index v) const { return graph_.values[v]; }

  template <class Number>
  [[noreturn]] static void fail(std::string name, Number number, std::string requirement) {
    raise({"Graph", std::move(name), spelled(number), std::move(requirement), kReport});
  }

  /// Sums of costs must not overflow, either.
  void check_cost(const std::string& name, double cost) {
    constexpr double kMost = 1e200;
    if (!std::isfinite(cost) || cost < 0) fail(name, cost, "finite and at least 0");
    if ((total_cost_ += cost) > kMost) {
      fail(name, cost, "so small that all costs of the step sum up to 1e200 at most");
    }
  }

  static std::string of_value(const char* name, Index v) {
    return std::string(name) + " of value " + std::to_string(v);
  }

  [[nodiscard]] std::string of_op(const char* name, Index i) const {
    return std::string(name) + " of op " + std::to_string(i) + " (" + graph_.ops[i].name + ")";
  }

  static std::string of_event(const char* name, std::size_t t) {
    return std::string(name) + " of event " + std::to_string(t);
  }

  /// Sums of bytes must not overflow, however often a step counts each of them.
  void check_bytes(const std::string& name, std::int64_t bytes) {
    constexpr std::int64_t kMost = std::int64_t{1} << 56;
    if (bytes < -kMost || bytes > kMost || (total_bytes_ += std::abs(bytes)) > kMost) {
      fail(name, bytes, "so small that all bytes of the step sum up to 2^56 at most");
    }
  }

  void check_step() {
    check_cost("step_seconds", graph_.step_seconds);
    check_cost("step_flops", graph_.step_flops);
  }

  /// A single device has no name, so that a step's file does not depend on which device it ran on.
  void check_devices() const {
    if (graph_.devices.size() == 1) fail("num devices", 1, "0 or at least 2");
  }

  void check_device(const std::string& name, Index device) const {
    if (device >= 0 && device < num_devices(graph_)) return;
    fail(name, device, num_devices(graph_) == 1 ? "0, the only one" : "an index of devices");
  }

  void check_value(Index v) {
    const Value& x = value(v);
    check_device(of_value("device", v), x.device);
    if (x.bytes < 0) fail(of_value("bytes", v), x.bytes, "at least 0");
    check_bytes(of_value("bytes", v), x.bytes);
    if (x.producer < -1 || x.producer >= num_ops()) {
      fail(of_value("producer", v), x.producer, "-1 or an op");
    }
    if (x.producer == -1 && x.bytes != 0 && x.overwritten_by == -1) {
      fail(of_value("bytes", v), x.bytes, "0 as it is external and nothing overwrites it");
    }
    if (x.producer >= 0 && std::ranges::count(graph_.ops[x.producer].outputs, v) != 1) {
      fail(of_value("producer", v), x.producer, "an op with that output");
    }
    check_overwrites(v);
    check_overwritten(v);
  }

  void check_overwritten(Index v) const {
    const Value& x = value(v);
    if (x.overwritten_by == -1) return;
    const bool is_overwritten = is_value(x.overwritten_by) && value(x.overwritten_by).producer >= 0;
    const Index overwrites = is_overwritten ? value(x.overwritten_by).overwrites : -2;
    if (overwrites == v || (overwrites == -1 && reads(value(x.overwritten_by).producer, v))) return;
    fail(of_value("overwritten_by", v), x.overwritten_by, "-1 or the value that overwrites it");
  }

  [[nodiscard]] bool reads(Index op, Index v) const {
    return op >= 0 && op < num_ops() && std::ranges::count(graph_.ops[op].inputs, v) == 1;
  }

  void check_overwrites(Index v) const {
    const Value& x = value(v);
    if (x.overwrites == -1) return;
    if (!is_value(x.overwrites) || value(x.overwrites).overwritten_by != v || x.producer < 0) {
      fail(of_value("overwrites", v), x.overwrites, "-1 or a value overwritten by it");
    }
    if (value(x.overwrites).bytes != x.bytes) {
      fail(of_value("bytes", v), x.bytes, "those of the storage it overwrites");
    }
    if (value(x.overwrites).device != x.device) {
      fail(of_value("device", v), x.device, "that of the storage it overwrites");
    }
    // A part of a call overwrites what the call, right before it, has read.
    const bool by_part = graph_.ops[x.producer].is_part && reads(x.producer - 1, x.overwrites);
    if (!by_part && !reads(x.producer, x.overwrites)) {
      fail(of_value("overwrites", v), x.overwrites,
           "an input of its producer, or of the call that this is a part of");
    }
  }

  void check_op(Index i) {
    const Op& op = graph_.ops[i];
    if (op.stage < 0 || op.stage >= static_cast<Index>(graph_.stages.size())) {
      fail(of_op("stage", i), op.stage, "an index of stages");
    }
    check_cost(of_op("forward_seconds", i), op.forward_seconds);
    check_cost(of_op("replay_seconds", i), op.replay_seconds);
    check_joining(i);
    check_cost(of_op("flops", i), op.flops);
    check_cost(of_op("bytes_moved", i), op.bytes_moved);
    check_transient_bytes(of_op("transient_bytes", i), op.transient_bytes);
    check_further_transient_bytes(i);
    for (const Index v : op.inputs) check_input(i, v);
    for (const Index v : op.outputs) {
      if (!is_value(v) || value(v).producer != i) fail(of_op("output", i), v, "a value it makes");
    }
  }

  void check_transient_bytes(const std::string& name, std::int64_t bytes) {
    if (bytes < 0) fail(name, bytes, "at least 0");
    check_bytes(name, bytes);
  }

  void check_further_transient_bytes(Index i) {
    const auto& further = graph_.ops[i].further_transient_bytes;
    const auto num_further = static_cast<std::size_t>(num_devices(graph_)) - 1;
    if (!further.empty() && further.size() != num_further) {
      fail(of_op("num further_transient_bytes", i), further.size(),
           "0 or " + std::to_string(num_further) + ", one for each device but the main one");
    }
    for (const std::int64_t bytes : further) {
      check_transient_bytes(of_op("further_transient_bytes", i), bytes);
    }
  }

  void check_joining(Index i) {
    const Op& op = graph_.ops[i];
    check_cost(of_op("joined_seconds", i), op.joined_seconds);
    if (op.joined_seconds > (op.joins ? op.replay_seconds : 0)) {
      fail(of_op("joined_seconds", i), op.joined_seconds,
           op.joins ? "at most its replay_seconds" : "0, as it does not join");
    }
    if (!op.joins) return;
    const bool has_one_output = op.outputs.size() == 1 && i > 0;
    const bool follows = has_one_output && graph_.ops[i - 1].outputs.size() == 1 &&
                         std::ranges::count(op.inputs, graph_.ops[i - 1].outputs.front()) == 1;
    if (follows && is_elsewhere(op.outputs.front(), graph_.ops[i - 1].outputs.front())) {
      fail(of_op("joins", i), true, "false as it makes its output on another device");
    }
    if (!follows) {
      fail(of_op("joins", i), true, "false unless it makes one output of the only one before it");
    }
  }

  [[nodiscard]] bool is_elsewhere(Index v, Index u) const {
    return is_value(v) && is_value(u) && value(v).device != value(u).device;
  }

  void check_input(Index i, Index v) const {
    if (!is_value(v) || value(v).producer >= i)
      fail(of_op("input", i), v, "a value made before it");
    if (std::ranges::count(graph_.ops[i].inputs, v) != 1) {
      fail(of_op("input", i), v, "listed once");
    }
  }

  void check_event(std::size_t t) {
    const Event& event = graph_.events[t];
    check_device(of_event("device", t), event.device);
    if (event.device != 0 && event.kind != EventKind::outside) {
      fail(of_event("device", t), event.device, "0 as it is not outside memory");
    }
    switch (event.kind) {
      case EventKind::run_op:
        if (sealed_ || event.id != next_op_++) fail(of_event("op", t), event.id, "the next op");
        return;
      case EventKind::outside:
        check_bytes(of_event("net_bytes", t), event.net_bytes);
        check_bytes(of_event("peak_bytes", t), event.peak_bytes);
        return;
      case EventKind::seal:
        if (sealed_) fail(of_event("num seal events", t), 2, "1");
        sealed_ = true;
        wanted_ = handles_;
        return;
      case EventKind::pass_end:
        if (!sealed_) fail(of_event("pass_end", t), static_cast<int>(t), "after the seal event");
        return;
      case EventKind::save:
      case EventKind::death:
      case EventKind::demand:
      case EventKind::release:
        return check_value_event(t);
    }
    fail(of_event("kind", t), static_cast<int>(event.kind), "one of EventKind");
  }

  void check_value_event(std::size_t t) {
    const Event& event = graph_.events[t];
    if (!is_value(event.id)) fail(of_event("value", t), event.id, "an index of values");
    if (event.kind == EventKind::death) {
      const bool is_made = value(event.id).producer < next_op_;
      if (!is_made) fail(of_event("death", t), event.id, "after the op that makes it");
      return;
    }
    if (value(event.id).overwritten_by != -1) {
      fail(of_event("value", t), event.id, "the last version of its storage");
    }
    if (event.kind == EventKind::demand && !sealed_) {
      fail(of_event("demand", t), event.id, "after the seal event");
    }
    Index& handles = handles_[event.id];
    if (event.kind == EventKind::save) {
      if (sealed_) fail(of_event("save", t), event.id, "before the seal event");
      ++handles;
      return;
    }
    if (handles <= 0) fail(of_event("value", t), event.id, "one that has a handle");
    if (event.kind == EventKind::release) --handles;
  }

  /// Whether nothing has the content of `v` any more, nor can make it again.
  [[nodiscard]] bool is_lost(Index v) const {
    return value(v).producer >= 0 && value(v).must_keep && !is_source(value(v));
  }

  /// Checks that all that backward may ask for can be replayed from sources if nothing is kept.
  void check_replays() {
    for (Index i = num_ops() - 1; i >= 0; --i) {
      const Op& op = graph_.ops[i];
      const auto is_replayed = [this](Index w) { return wanted_[w] > 0 && !is_source(value(w)); };
      if (!std::ranges::any_of(op.outputs, is_replayed)) continue;
      for (const Index u : op.inputs) {
        if (is_lost(u)) {
          fail(of_value("must_keep", u), true,
               "false, or snapshot be true, as it is overwritten and " + of_op("a replay", i) +
                   " reads it");
        }
        ++wanted_[u];
      }
    }
  }

  const Graph& graph_;
  std::vector<Index> handles_;
  std::vector<Index> wanted_;  ///< handles at the seal, then replays too
  std::int64_t total_bytes_ = 0;
  double total_cost_ = 0;
  Index next_op_ = 0;
  bool sealed_ = false;
};

}  // namespace

void validate(const Graph& graph) { Validator(graph).run(); }

}  // namespace gradrecomp::plan
