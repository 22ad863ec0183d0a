#pragma once

#include <vector>

#include "chain_search.h"
#include "front.h"
#include "polish.h"

namespace gradrecomp::plan {

/// Finds the candidates that questions about one graph are answered from.
///
/// What it finds up to some overhead does not depend on the question, so that answers to larger
/// budgets know all that smaller ones know; see Note [ Monotone budgets ] in search.cpp.
class Search {
 public:
  Search(const Graph& graph, const Pricing& pricing, const std::vector<Verdict>& verdicts);

  /// Looks for all plans of at most this overhead, in one of a few grades of effort.
  void climb(double max_overhead);

  /// Keeps what was replayed for nothing.
  Candidate spare(const Candidate& chosen, std::int64_t max_peak_bytes);

  [[nodiscard]] const Front& front() const { return front_; }
  Candidate evaluate(KeptSet keep) { return polish_.evaluate(std::move(keep)); }

 private:
  void add_policies();
  void add_relaxed(double overhead);
  void add_chain(double max_overhead);
  void polish(double max_overhead);

  const Graph& graph_;
  const Pricing& pricing_;
  Polish polish_;
  ChainSearch chain_;
  Front front_;
  int num_simulations_ = 0;  ///< for each polish
};

}  // namespace gradrecomp::plan
