#include "alike_values.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

namespace gradrecomp::plan {

AlikeValues::AlikeValues(const Graph& graph, std::span<const Index> values)
    : of_equal_size_(groups(graph, values, Likeness::of_equal_size)),
      of_any_size_(groups(graph, values, Likeness::of_any_size)) {}

AlikeValues::Groups AlikeValues::groups(const Graph& graph, std::span<const Index> values,
                                        Likeness likeness) {
  Groups groups;
  std::map<std::tuple<std::string_view, bool, std::int64_t, double>, std::size_t> known;
  for (const Index v : values) {
    const Value& value = graph.values[v];
    const Op& op = graph.ops[value.producer];
    const bool sized = likeness == Likeness::of_equal_size;
    const auto [group, is_new] =
        known.try_emplace({op.name, value.saved, sized ? value.bytes : 0, sized ? op.flops : 0},
                          groups.positions.size());
    if (is_new) groups.positions.emplace_back();
    groups.positions[group->second].push_back(groups.group_of.size());
    groups.group_of.push_back(group->second);
  }
  return groups;
}

bool AlikeValues::are_alike(std::size_t a, std::size_t b, Likeness likeness) const {
  return of(likeness).group_of[a] == of(likeness).group_of[b];
}

std::span<const std::size_t> AlikeValues::alike_to(std::size_t position, Likeness likeness) const {
  return of(likeness).positions[of(likeness).group_of[position]];
}

}  // namespace gradrecomp::plan
