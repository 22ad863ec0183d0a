#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Per value of a graph: 1 keep, 0 drop.
using KeptSet = std::vector<std::uint8_t>;

/// Keeps every value autograd saved: the plain step.
KeptSet keep_all(const Graph& graph);

/// Keeps only what cannot be replayed. Its peak is often that of the plain step, as the first
/// demand of backward makes the whole network again.
KeptSet drop_all(const Graph& graph);

/// Keeps what crosses the boundaries between groups of `k` stages, in the order they first run.
///
/// Guarantees: a replay reads nothing made in another group, unless that was overwritten in place
/// by
///             one group after another was done with it.
/// Throws:     std::invalid_argument if `k` is below 1.
KeptSet every_k(const Graph& graph, Index k);

/// every_k with groups of about sqrt(number of stages).
/// Source:     Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
KeptSet sqrt_n(const Graph& graph);

/// Drops what ops without FLOPs made, as far as no replay needs an op with FLOPs.
///
/// Where one would, the dropped value is kept, or what the op with FLOPs made, whichever is
/// smaller.
KeptSet pointwise_only(const Graph& graph);

/// Values a user decides about. In patterns `*` stands for any text.
struct Selection {
  std::vector<std::string> keep_stages = {};  ///< keep what ops of these stages save for backward
  std::vector<std::string> drop_stages = {};
  std::vector<std::string> keep_ops = {};  ///< keep what ops of these names save, "aten::conv*"
  std::vector<std::string> drop_ops = {};
  bool operator==(const Selection&) const = default;
};

/// What a selection says of one value.
enum class Verdict : std::uint8_t { open, keep, drop };

/// The verdict of `selection` on every value; only saved values are ever decided.
///
/// What cannot be replayed stays kept whatever a drop pattern says.
/// Throws:  std::invalid_argument if a pattern matches nothing, or a value is to be kept and
/// dropped.
std::vector<Verdict> select(const Graph& graph, const Selection& selection);

/// What decides: a budget (the optimiser) or one of the fixed policies.
enum class PolicyKind : std::uint8_t {
  max_overhead,
  max_peak_bytes,
  keep_all,
  drop_all,
  every_k,
  sqrt_n,
  pointwise_only,
};

struct Policy {
  PolicyKind kind = PolicyKind::max_overhead;
  Index every = 0;  ///< stages a group, for every_k
  bool operator==(const Policy&) const = default;
};

/// "keep_all", "drop_all", "every_2", "sqrt_n", "pointwise_only", "max_overhead", "max_peak_bytes".
/// Throws:  std::invalid_argument listing these, for any other text.
Policy parse_policy(std::string_view text);

/// The text that parse_policy reads.
std::string to_string(const Policy& policy);

/// The kept set of a fixed policy.
/// Throws:  std::invalid_argument for the two policies that need a budget.
KeptSet kept_set(const Graph& graph, const Policy& policy);

}  // namespace gradrecomp::plan
