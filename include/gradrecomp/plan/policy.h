#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// A kept set with the sweeps that make values more than once.
struct FixedPlan {
  KeptSet keep = {};
  std::vector<Sweep> sweeps = {};  ///< ascending by target; empty where no op is replayed twice
  bool operator==(const FixedPlan&) const = default;
};

/// A fixed rule for what to keep, by its name: "keep_all", "drop_all", "every_2", "sqrt_n",
/// "uniform_8", "chen_greedy", "pointwise_only", "selective", "whole_block_0.4", "revolve_5" or
/// "nested". Text will do wherever one is asked for.
///
/// A hyphen reads as an underscore. See policies.h for what each keeps.
class GRADRECOMP_API Policy {
 public:
  /// Throws:  std::invalid_argument listing the names, for any other text.
  Policy(std::string_view name);
  Policy(const char* name) : Policy(std::string_view(name)) {}
  Policy(const std::string& name) : Policy(std::string_view(name)) {}

  [[nodiscard]] std::string name() const;

  /// What it keeps of `graph`.
  [[nodiscard]] FixedPlan plan(const Graph& graph) const;

  /// How names are spelled: "keep_all, drop_all, every_<k>, ...".
  [[nodiscard]] static std::string spellings();

  bool operator==(const Policy&) const = default;

 private:
  std::size_t family_ = 0;  ///< position in the registry
  double number_ = 0;       ///< that follows its name, if one does
};

}  // namespace gradrecomp::plan
