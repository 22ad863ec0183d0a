#pragma once

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/policy.h"

namespace gradrecomp::plan {

/// Keeps what crosses the boundaries between groups of `k` stages, in the order they first run.
///
/// Guarantees: a replay reads nothing made in another group, unless that was overwritten in place
///             by one group after another was done with it.
/// Throws:     std::invalid_argument if `k` is below 1.
GRADRECOMP_API KeptSet every_k(const Graph& graph, Index k);

/// every_k with groups of about sqrt(number of stages).
/// Source:     Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
GRADRECOMP_API KeptSet sqrt_n(const Graph& graph);

/// Keeps what crosses between `num_segments` segments that save about the same bytes.
///
/// Stages do not matter: a segment is a run of blocks, which end where a single value crosses.
/// Throws:  std::invalid_argument if `num_segments` is below 1.
/// Source:  torch.utils.checkpoint.checkpoint_sequential; differs from it in that segments are
///          equal in bytes, not in layers, and the last one is replayed like the others.
GRADRECOMP_API KeptSet uniform_n(const Graph& graph, Index num_segments);

/// Keeps what crosses between segments that end once they save more than a threshold.
///
/// Complexity: one simulation per number of blocks, of which there are at most about 128.
/// Source:     Chen et al. 2016, Algorithm 3 (memory planning with budget); differs from it in that
///             the threshold is the one of least simulated peak, not of least estimated sum.
GRADRECOMP_API KeptSet chen_greedy(const Graph& graph);

/// Drops what ops without FLOPs made, as far as no replay needs an op with FLOPs.
///
/// Where one would, the dropped value is kept, or what the op with FLOPs made, whichever is
/// smaller.
GRADRECOMP_API KeptSet pointwise_only(const Graph& graph);

/// Keeps what crosses between stages and what ops with FLOPs made: convolutions, matrix products
/// and attention.
///
/// Source:  selective activation checkpointing of PyTorch
///          (torch.utils.checkpoint.create_selective_checkpoint_contexts) around every stage;
///          differs from it in that a bias or activation written over such an output is kept too.
GRADRECOMP_API KeptSet selective(const Graph& graph);

/// Keeps all or nothing inside each block, at the least replay seconds whose peak is at most
/// `share` of the plain step's.
///
/// A run of blocks that keeps nothing may hold its input alone and is then replayed at once. Where
/// no such plan has that peak, the one of least peak found.
/// Guarantees: optimal among these plans up to 4096 points of the Pareto front.
/// Complexity: O(blocks * run length * points) time, and one simulation per way to tile the blocks.
/// Throws:     std::invalid_argument if `share` is not above 0.
/// Source:     rotor: Beaumont et al., Optimal Re-Materialization Strategies for Heterogeneous
///             Chains, ACM TOMS 2024; differs from it in that no op is replayed twice, and that
///             bytes are exact instead of rounded to slots.
GRADRECOMP_API KeptSet whole_block(const Graph& graph, double share);

/// Binomial checkpointing: reverses the chain of stages with at most `num_checkpoints` boundaries
/// held at a time, the input of the region aside, at the fewest stage replays.
///
/// Stages count as equally long and wide. The last one keeps all it saves.
/// Guarantees: on a chain of l such stages, t(l, s) = r l - C(s + r, r - 1) runs of a stage, where
///             s = num_checkpoints + 1 and C(s + r - 1, s) < l <= C(s + r, s).
/// Throws:     std::invalid_argument if `num_checkpoints` is below 1.
/// Source:     Griewank and Walther, Algorithm 799: revolve, ACM TOMS 2000.
GRADRECOMP_API FixedPlan revolve_n(const Graph& graph, Index num_checkpoints);

/// Halves the chain of stages again and again: about log2(stages) boundaries are held at a time.
///
/// Source:  Chen et al. 2016, section 4.4 (recursion with one checkpoint at a time).
GRADRECOMP_API FixedPlan nested(const Graph& graph);

}  // namespace gradrecomp::plan
