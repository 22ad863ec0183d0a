#include "trace.h"

namespace gradrecomp::plan {

Trace::List Trace::add(List rest, std::int64_t bytes, Index from, Index to) {
  if (to <= from) return rest;
  held_.push_back({bytes, from, to, rest});
  return static_cast<List>(held_.size()) - 1;
}

void Trace::add_to(std::vector<std::int64_t>& loads, List list) const {
  std::vector<std::int64_t> changes(loads.size() + 1, 0);
  for (; list != kEmpty; list = held_[list].rest) {
    changes[held_[list].from + 1] += held_[list].bytes;
    changes[held_[list].to + 1] -= held_[list].bytes;
  }
  std::int64_t held = 0;
  for (std::size_t t = 0; t < loads.size(); ++t) {
    held += changes[t];
    loads[t] += held;
  }
}

void Trace::keep_only(std::span<List* const> lists) {
  std::vector<List> names(held_.size(), kEmpty);
  constexpr List kWanted = 0;
  for (const List* wanted : lists) {
    for (List list = *wanted; list != kEmpty && names[list] == kEmpty; list = held_[list].rest) {
      names[list] = kWanted;
    }
  }
  const auto renamed = [&](List list) { return list == kEmpty ? kEmpty : names[list]; };
  num_wanted_ = 0;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (names[i] == kEmpty) continue;
    names[i] = static_cast<List>(num_wanted_);
    held_[i].rest = renamed(held_[i].rest);
    held_[num_wanted_++] = held_[i];
  }
  held_.resize(num_wanted_);
  for (List* list : lists) *list = renamed(*list);
}

void Trace::clear() {
  held_.clear();
  num_wanted_ = 0;
}

}  // namespace gradrecomp::plan
