#pragma once

#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"

namespace gradrecomp::plan {

/// Finds the best plan for `request`: exact menus of blocks, put together by an exact program over
/// the chain they form, then annealing on the simulator; all of it goes into one book of answers.
///
/// Every plan carries a proof of how good it is: Plan::proven_peak_bytes and proven_overhead. Where
/// that leaves much open, prove_further() may prove more.
/// On several devices one is planned after the other, nothing is replayed twice unless the budget
/// is about one of them only, and the proof is of the main device.
///
/// An unreachable max_peak_bytes is not an error: the plan is the one of the lowest peak found,
/// with `feasible` false. The same holds for max_overhead where a selection forces dearer replays.
/// Guarantees: - The simulated overhead, or peak, is within the budget unless `feasible` is false.
///             - On one device a larger max_overhead never gives a higher peak. On several it gives
///               no device a higher peak than the plain step does, or 1/256 of all peaks more,
///               unless a selection forces it.
///             - With a search, never worse than a fixed policy that the budget admits, every_k up
///               to k = 32 included, but whole_block_S where costs are spread over more orders of
///               magnitude than its buckets tell apart. On several devices that holds of the sum of
///               peaks, among policies that raise none.
///             - The same graph and request give the same plan.
/// Complexity: without a search (Request::effort 0) about 0.1 s for 800 ops at 5% overhead, and
///             0.7 s where every plan is looked at.
/// Threads:    safe to call from several threads.
/// Throws:     std::invalid_argument if the graph, the selection or the budget is not valid.
/// Source:     Notes in block_graph.cpp, menu.cpp, chain.cpp, grouped_chain.cpp, answer_book.cpp,
///             annealing.cpp, local_search.cpp, device_search.cpp, offload_search.cpp and
///             relaxation.cpp.
GRADRECOMP_API Plan make_plan(const Graph& graph, const Request& request);

/// The plans that no other one found beats in both predicted peak and overhead, by rising overhead.
///
/// On several devices it is the front of the main one; all that is saved on others is kept.
/// Guarantees: peaks fall strictly; deterministic.
/// Throws:     std::invalid_argument if the graph or the selection is not valid.
GRADRECOMP_API std::vector<Plan> make_front(const Graph& graph, const FrontRequest& request);

}  // namespace gradrecomp::plan
