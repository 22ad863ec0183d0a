#include "gradrecomp/plan/selection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "layer_types.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

using Marks = std::vector<std::uint8_t>;

[[noreturn]] void fail_unmatched(const std::string& what, const std::string& text,
                                 const std::string& requirement, const std::string& advice) {
  raise({"Selection", what, '"' + text + '"', requirement, advice});
}

LayerType known_type(const std::string& what, const std::string& text) {
  if (const auto type = find_layer_type(text)) return *type;
  std::string known;
  for (const std::string& name : layer_types()) known += (known.empty() ? "" : ", ") + name;
  fail_unmatched(what, text, "one of " + known,
                 "For other layers give op names in keep_ops and drop_ops");
}

/// Marks what ops of some stages, names or layer types save.
class Chooser {
 public:
  /// `constraint`: "keep" or "drop", for errors.
  Chooser(const Graph& graph, std::string constraint)
      : graph_(graph), constraint_(std::move(constraint)), chosen_(graph.values.size(), 0) {}

  void by_stage(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      const auto fits = [&](const Op& op) {
        return matches(pattern, graph_.stages[op.stage].name);
      };
      if (!mark(fits)) fail_pattern("stages", pattern);
    }
  }

  void by_op(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      const auto fits = [&](const Op& op) { return matches(pattern, op.name); };
      if (!mark(fits)) fail_pattern("ops", pattern);
    }
  }

  void by_type(const std::vector<std::string>& types) {
    for (const std::string& text : types) {
      const LayerType type = known_type(constraint_ + "_types", text);
      if (mark([&](const Op& op) { return made_by(type, op); })) continue;
      fail_unmatched(constraint_ + "_types", text, "one that the graph runs",
                     "Give op names in keep_ops and drop_ops if it runs under another name");
    }
  }

  [[nodiscard]] const Marks& chosen() const { return chosen_; }

 private:
  [[noreturn]] void fail_pattern(const char* of, const std::string& pattern) const {
    fail_unmatched(constraint_ + "_" + of, pattern,
                   std::string("one that fits some of the graph's ") + of,
                   "Check the spelling; `*` stands for any text");
  }

  template <class Fits>
  bool mark(const Fits& fits) {
    bool found = false;
    for (const Op& op : graph_.ops) {
      if (!fits(op)) continue;
      found = true;
      for (const Index v : op.outputs) chosen_[v] |= graph_.values[v].saved ? 1 : 0;
    }
    return found;
  }

  /// Whether a layer of `type` runs `op`: itself, or to finish what one of its ops made.
  [[nodiscard]] bool made_by(const LayerType& type, const Op& op) const {
    const Op* now = &op;
    while (now != nullptr && !type.fits(now->name)) now = finished_by(*now);
    return now != nullptr;
  }

  /// The op to whose result `op` applies a bias or scale in place, or null.
  [[nodiscard]] const Op* finished_by(const Op& op) const {
    const bool is_affine =
        op.name == "aten::add_" || op.name == "aten::mul_" || op.name == "aten::div_";
    if (!is_affine || op.outputs.size() != 1) return nullptr;
    const Index target = graph_.values[op.outputs[0]].overwrites;
    const bool reads_more = std::ranges::any_of(
        op.inputs, [&](Index u) { return u != target && graph_.values[u].producer >= 0; });
    if (target < 0 || reads_more || graph_.values[target].producer < 0) return nullptr;
    return &graph_.ops[graph_.values[target].producer];
  }

  const Graph& graph_;
  std::string constraint_;
  Marks chosen_;
};

/// `constraint`, "keep" or "drop", is what the lists' names begin with.
Marks chosen_by(const Graph& graph, const char* constraint, const std::vector<std::string>& stages,
                const std::vector<std::string>& ops, const std::vector<std::string>& types) {
  Chooser chooser(graph, constraint);
  chooser.by_stage(stages);
  chooser.by_op(ops);
  chooser.by_type(types);
  return chooser.chosen();
}

[[noreturn]] void fail_contradiction(const Graph& graph, const Op& op) {
  raise({"Selection",
         "constraint on op \"" + op.name + "\" in stage \"" + graph.stages[op.stage].name + "\"",
         "both keep and drop", "one of the two",
         "Make the patterns of keep_* and drop_* disjoint"});
}

}  // namespace

std::vector<Constraint> select(const Graph& graph, const Selection& selection) {
  const Marks keep =
      chosen_by(graph, "keep", selection.keep_stages, selection.keep_ops, selection.keep_types);
  const Marks drop =
      chosen_by(graph, "drop", selection.drop_stages, selection.drop_ops, selection.drop_types);
  std::vector<Constraint> constraints(graph.values.size(), Constraint::open);
  for (std::size_t v = 0; v < constraints.size(); ++v) {
    if (keep[v] != 0 && drop[v] != 0) {
      fail_contradiction(graph, graph.ops[graph.values[v].producer]);
    }
    if (keep[v] != 0) constraints[v] = Constraint::keep;
    if (drop[v] != 0 && !graph.values[v].must_keep) constraints[v] = Constraint::drop;
  }
  return constraints;
}

}  // namespace gradrecomp::plan
