#pragma once

#include <memory>
#include <utility>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::test {

inline std::shared_ptr<const plan::Plan> shared(plan::Plan plan) {
  return std::make_shared<const plan::Plan>(std::move(plan));
}

/// Whether the value can be away for a while, if it is kept.
inline bool may_leave(const plan::Value& value) {
  return value.producer >= 0 && value.overwritten_by < 0 && !value.must_keep;
}

/// Keeps everything, and sends all away after its op.
inline plan::Plan all_away(const plan::Graph& graph) {
  plan::Plan plan{.policy = "all_away", .signature = graph.signature};
  for (const plan::Value& value : graph.values) {
    const auto v = static_cast<plan::Index>(plan.keep.size());
    plan.keep.push_back(1);
    if (may_leave(value)) plan.offloads.push_back({v, value.producer, -1});
  }
  return plan;
}

}  // namespace gradrecomp::test
