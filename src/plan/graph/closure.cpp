#include "closure.h"

#include "choosable_values.h"

namespace gradrecomp::plan {

bool Closure::available(Index v, std::span<const std::uint8_t> keep) const {
  const Value& x = graph_.values[v];
  return x.producer < 0 || is_held(x, keep[v] != 0);
}

std::span<const Index> Closure::find(Index v, std::span<const std::uint8_t> keep) {
  ops_.clear();
  ++round_;
  return extend(v, keep);
}

std::span<const Index> Closure::extend(Index v, std::span<const std::uint8_t> keep) {
  if (!available(v, keep)) stack_.push_back(v);
  while (!stack_.empty()) {
    const Index op = graph_.values[stack_.back()].producer;
    stack_.pop_back();
    if (stamp_[op] == round_) continue;
    stamp_[op] = round_;
    ops_.push_back(op);
    for (const Index u : graph_.ops[op].inputs) {
      if (!available(u, keep)) stack_.push_back(u);
    }
  }
  return ops_;
}

}  // namespace gradrecomp::plan
