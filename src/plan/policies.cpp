#include "gradrecomp/plan/policies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include "closure.h"
#include "error.h"

namespace gradrecomp::plan {
namespace {

/// The group of every op: groups of `k` stages in the order they first run, never falling.
std::vector<Index> stage_groups(const Graph& graph, Index k) {
  std::vector<Index> rank(graph.stages.size(), -1);
  std::vector<Index> group;
  Index num_ranked = 0;
  Index highest = 0;
  for (const Op& op : graph.ops) {
    if (rank[op.stage] < 0) rank[op.stage] = num_ranked++;
    highest = std::max(highest, rank[op.stage] / k);
    group.push_back(highest);
  }
  return group;
}

Index last_version(const Graph& graph, Index v) {
  while (graph.values[v].overwritten_by >= 0 && !graph.values[v].snapshot) {
    v = graph.values[v].overwritten_by;
  }
  return v;
}

/// Keeps the values made before and saved after a group boundary, by the op that ran last.
void keep_late_saves(const Graph& graph, const std::vector<Index>& group, KeptSet& keep) {
  Index now = 0;
  for (const Event& event : graph.events) {
    if (event.kind == EventKind::run_op) now = group[event.id];
    if (event.kind != EventKind::save) continue;
    const Index producer = graph.values[event.id].producer;
    if (producer >= 0 && group[producer] < now) keep[event.id] = 1;
  }
}

/// Keeps `v`, or the outputs of ops with FLOPs that its replay needs if they are fewer bytes.
void avoid_flops(const Graph& graph, Index v, Closure& closure, KeptSet& keep) {
  std::int64_t bytes = 0;
  bool can_keep = true;
  std::vector<Index> sources;
  for (const Index op : closure.find(v, keep)) {
    if (graph.ops[op].flops == 0) continue;
    for (const Index u : graph.ops[op].outputs) {
      sources.push_back(u);
      bytes += graph.values[u].bytes;
      can_keep &= graph.values[u].overwritten_by < 0;
    }
  }
  if (sources.empty()) return;
  if (!can_keep || bytes >= graph.values[v].bytes) sources.assign(1, v);
  for (const Index u : sources) keep[u] = 1;
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// Marks in `chosen` the saved values whose producer has a name that fits one of `patterns`.
template <class NameOf>
void choose(const Graph& graph, const std::vector<std::string>& patterns, const NameOf& name_of,
            KeptSet& chosen) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const Op& op : graph.ops) {
      if (!matches(pattern, name_of(op))) continue;
      found = true;
      for (const Index v : op.outputs) chosen[v] |= graph.values[v].saved ? 1 : 0;
    }
    if (!found) {
      raise({"select", "pattern", '"' + pattern + '"', "one that fits a stage or op of the graph",
             "Check the spelling; `*` stands for any text"});
    }
  }
}

KeptSet chosen_by(const Graph& graph, const std::vector<std::string>& stages,
                  const std::vector<std::string>& ops) {
  KeptSet chosen(graph.values.size(), 0);
  choose(
      graph, stages, [&](const Op& op) { return graph.stages[op.stage].name; }, chosen);
  choose(
      graph, ops, [](const Op& op) { return op.name; }, chosen);
  return chosen;
}

constexpr std::array<std::pair<PolicyKind, std::string_view>, 6> kPolicyNames{{
    {PolicyKind::max_overhead, "max_overhead"},
    {PolicyKind::max_peak_bytes, "max_peak_bytes"},
    {PolicyKind::keep_all, "keep_all"},
    {PolicyKind::drop_all, "drop_all"},
    {PolicyKind::sqrt_n, "sqrt_n"},
    {PolicyKind::pointwise_only, "pointwise_only"},
}};
constexpr std::string_view kEvery = "every_";

}  // namespace

KeptSet keep_all(const Graph& graph) {
  KeptSet keep;
  for (const Value& v : graph.values) {
    const bool kept = v.producer >= 0 && v.overwritten_by < 0 && (v.saved || v.must_keep);
    keep.push_back(kept ? 1 : 0);
  }
  return keep;
}

KeptSet drop_all(const Graph& graph) {
  KeptSet keep;
  for (const Value& v : graph.values) {
    keep.push_back(v.producer >= 0 && v.overwritten_by < 0 && v.must_keep ? 1 : 0);
  }
  return keep;
}

KeptSet every_k(const Graph& graph, Index k) {
  if (k < 1) raise({"every_k", "k", spelled(k), "at least 1", "Pass the stages of one group"});
  const std::vector<Index> group = stage_groups(graph, k);
  KeptSet keep = drop_all(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Index u : graph.ops[i].inputs) {
      const Index producer = graph.values[u].producer;
      if (producer >= 0 && group[producer] < group[i]) keep[last_version(graph, u)] = 1;
    }
  }
  keep_late_saves(graph, group, keep);
  return keep;
}

KeptSet sqrt_n(const Graph& graph) {
  const double k = std::round(std::sqrt(static_cast<double>(graph.stages.size())));
  return every_k(graph, std::max<Index>(1, static_cast<Index>(k)));
}

KeptSet pointwise_only(const Graph& graph) {
  KeptSet keep = drop_all(graph);
  for (std::size_t v = 0; v < keep.size(); ++v) {
    const Value& x = graph.values[v];
    if (x.saved && x.producer >= 0 && graph.ops[x.producer].flops > 0) keep[v] = 1;
  }
  Closure closure(graph);
  for (const Op& op : graph.ops) {
    for (const Index v : op.outputs) {
      if (graph.values[v].saved) avoid_flops(graph, v, closure, keep);
    }
  }
  return keep;
}

std::vector<Verdict> select(const Graph& graph, const Selection& selection) {
  const KeptSet keep = chosen_by(graph, selection.keep_stages, selection.keep_ops);
  const KeptSet drop = chosen_by(graph, selection.drop_stages, selection.drop_ops);
  std::vector<Verdict> verdicts(graph.values.size(), Verdict::open);
  for (std::size_t v = 0; v < verdicts.size(); ++v) {
    if (keep[v] != 0 && drop[v] != 0) {
      const Op& op = graph.ops[graph.values[v].producer];
      raise({"select",
             "selection of op \"" + op.name + "\" in stage \"" + graph.stages[op.stage].name + "\"",
             "both keep and drop", "one of the two",
             "Make the patterns of keep_* and drop_* disjoint"});
    }
    if (keep[v] != 0) verdicts[v] = Verdict::keep;
    if (drop[v] != 0 && !graph.values[v].must_keep) verdicts[v] = Verdict::drop;
  }
  return verdicts;
}

Policy parse_policy(std::string_view text) {
  for (const auto& [kind, name] : kPolicyNames) {
    if (text == name) return {kind};
  }
  Policy policy{PolicyKind::every_k};
  if (text.starts_with(kEvery)) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + kEvery.size(), end, policy.every);
    if (error == std::errc{} && last == end && policy.every >= 1) return policy;
  }
  raise({"parse_policy", "policy", '"' + std::string(text) + '"',
         "one of keep_all, drop_all, every_<k> (k at least 1, as in every_2), sqrt_n, "
         "pointwise_only, max_overhead, max_peak_bytes",
         "Check the spelling"});
}

std::string to_string(const Policy& policy) {
  for (const auto& [kind, name] : kPolicyNames) {
    if (policy.kind == kind) return std::string(name);
  }
  return std::string(kEvery) + std::to_string(policy.every);
}

KeptSet kept_set(const Graph& graph, const Policy& policy) {
  switch (policy.kind) {
    case PolicyKind::keep_all:
      return keep_all(graph);
    case PolicyKind::drop_all:
      return drop_all(graph);
    case PolicyKind::every_k:
      return every_k(graph, policy.every);
    case PolicyKind::sqrt_n:
      return sqrt_n(graph);
    case PolicyKind::pointwise_only:
      return pointwise_only(graph);
    case PolicyKind::max_overhead:
    case PolicyKind::max_peak_bytes:
      break;
  }
  raise({"kept_set", "policy", to_string(policy), "a fixed policy", "Use make_plan for a budget"});
}

}  // namespace gradrecomp::plan
