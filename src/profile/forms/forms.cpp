#include "profile/forms/forms.h"

#include <algorithm>
#include <cstdint>

#include "profile/forms/smooth_operators.h"
#include "tape/versions.h"

namespace gradrecomp::profile {
namespace {

/// How a value was looked at.
struct Looks {
  bool as_float32 = false;
  bool as_other = false;  ///< another type, or by an operator that is not smooth
  bool as_whole = false;  ///< a type without a fraction

  void add(c10::ScalarType type) {
    const bool is_float32 = type == c10::ScalarType::Float;
    as_float32 |= is_float32;
    as_other |= !is_float32;
    const bool has_fraction = c10::isFloatingType(type) || c10::isComplexType(type);
    as_whole |= !has_fraction && type != c10::ScalarType::Undefined;
  }
};

std::vector<Looks> looks_at_values(const tape::Tape& tape, const std::vector<SavedType>& saved) {
  std::vector<Looks> looks(tape.values().size());
  for (const tape::Op& op : tape.ops()) {
    for (const tape::Read& read : op.reads) looks[read.value].add(read.geometry->scalar_type());
  }
  for (const auto& [value, type] : saved) looks[tape::last_version(tape, value)].add(type);
  return looks;
}

// A packed form stands for what was drawn, so that another result of that call is not.
bool is_drawn(const tape::Op& op, const tape::Result& result) {
  return op.packed_form == nullptr || result.packed;
}

/// Whether a result of `op` hangs on numbers that it reads.
bool reads_numbers(const tape::Op& op) { return !op.reads.empty() && !op.traits->shapes_only; }

/// What `op` reads is not to be rounded, and what it makes, or its backward pass reads, is not to
/// be made of rounded numbers.
void forbid_rounding_at(const tape::Op& op, std::vector<Looks>& looks, plan::Graph& graph) {
  for (const tape::Read& read : op.reads) {
    looks[read.value].as_other = true;
    graph.values[read.value].exact |= graph.values[read.value].saved;
  }
  for (const tape::Result& result : op.results) {
    looks[result.value].as_other = true;
    graph.values[result.value].exact = true;
  }
}

/// Statistics, seeds and sums of exponentials scale whole rows of gradients, or choose them.
void forbid_rounding_of_side_results(const tape::Op& op, std::vector<Looks>& looks,
                                     plan::Graph& graph) {
  for (const tape::Result& result : op.results) {
    if (result.output <= 0) continue;
    looks[result.value].as_other = true;
    graph.values[result.value].exact = true;
  }
}

void mark_exact(const tape::Tape& tape, std::vector<Looks>& looks,
                const std::vector<tape::OpId>& drawing, plan::Graph& graph) {
  for (std::size_t v = 0; v < looks.size(); ++v) graph.values[v].exact = looks[v].as_whole;
  for (const tape::Op& op : tape.ops()) {
    const bool unpacks = op.substitute != nullptr && !op.substitute->has_call();
    if (unpacks || !reads_numbers(op)) continue;
    const Smoothness smoothness = smoothness_of(op);
    if (smoothness == Smoothness::none) forbid_rounding_at(op, looks, graph);
    if (smoothness != Smoothness::none) forbid_rounding_of_side_results(op, looks, graph);
    if (smoothness != Smoothness::saturating) continue;
    for (const tape::Result& result : op.results) looks[result.value].as_other = true;
  }
  for (const tape::OpId id : drawing) {
    const tape::Op& op = tape.ops()[id];
    for (const tape::Result& result : op.results) {
      if (is_drawn(op, result)) graph.values[result.value].exact = true;
    }
  }
  // A content that is written over cannot be kept, but what comes of it can.
  for (plan::Value& value : graph.values) {
    if (value.exact && value.overwritten_by >= 0) graph.values[value.overwritten_by].exact = true;
  }
}

/// Of each value: whether it is exact, or made of such values alone.
std::vector<std::uint8_t> are_discrete(const plan::Graph& graph) {
  std::vector<std::uint8_t> discrete(graph.values.size(), 0);
  for (std::size_t v = 0; v < discrete.size(); ++v) discrete[v] = graph.values[v].exact ? 1 : 0;
  for (const plan::Op& op : graph.ops) {
    const bool all = std::ranges::all_of(op.inputs, [&](auto u) { return discrete[u] != 0; });
    if (op.inputs.empty() || !all) continue;
    for (const plan::Index v : op.outputs) discrete[v] = 1;
  }
  return discrete;
}

}  // namespace

void mark_forms(const tape::Tape& tape, const std::vector<SavedType>& saved,
                const std::vector<tape::OpId>& drawing, plan::Graph& graph) {
  auto looks = looks_at_values(tape, saved);
  mark_exact(tape, looks, drawing, graph);
  const auto discrete = are_discrete(graph);
  for (std::size_t v = 0; v < looks.size(); ++v) {
    plan::Value& value = graph.values[v];
    const bool is_float32 = looks[v].as_float32 && !looks[v].as_other;
    const bool fits = value.producer >= 0 && value.bytes % sizeof(float) == 0;
    value.rounds = is_float32 && fits && discrete[v] == 0;
  }
}

}  // namespace gradrecomp::profile
