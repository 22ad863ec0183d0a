#include "block_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "partial_plan.h"
#include "plan/blocks/option_thinning.h"

// A group's menu is made of its own fronts, each for a stand-in block after it that only has a
// peak. A peak of zero stands for the last group of a chain, where the group's own peak counts; a
// high one for the first, where only what the group retains counts; and some lie between.

namespace gradrecomp::plan {
namespace {

constexpr int kNumOptions = 96;
constexpr std::array kPeaksAfter{0.0, 0.15, 0.5, 2.0};  // of what a group retains at most

std::int64_t peak_bytes(const std::vector<BlockChoice>& choices) {
  constexpr int kReaches = 10;
  PartialPlan<kReaches> plan{.rest_bytes = 0};
  for (std::size_t k = choices.size(); k-- > 0;) plan = joined(plan, choices[k], kReaches - 1);
  return plan.rest_bytes;
}

std::int64_t most_retained(std::span<const Menu* const> menus) {
  std::int64_t bytes = 0;
  for (const Menu* menu : menus) {
    const auto& kept = menu->of(CutFate::kept, CutFate::kept);
    bytes += std::ranges::max(kept, {}, &Option::retained_bytes).retained_bytes;
  }
  return bytes;
}

/// A block that does nothing but have a peak.
Menu peak_alone(std::int64_t bytes) {
  Menu menu;
  menu.of(CutFate::kept, CutFate::kept) = {{.early_peak_bytes = bytes}};
  return menu;
}

std::vector<ChainPoint> fronts(std::span<const Menu* const> menus, const ChainSize& size) {
  std::vector<ChainPoint> points;
  const auto retained = static_cast<double>(most_retained(menus));
  for (const double part : kPeaksAfter) {
    const Menu after = peak_alone(std::llround(part * retained));
    std::vector<const Menu*> all(menus.begin(), menus.end());
    all.push_back(&after);
    for (ChainPoint& point : solve_chain(all, size)) {
      point.choices.pop_back();
      points.push_back(std::move(point));
    }
  }
  return points;
}

/// The group's points as options, the best of them.
Menu make_menu(const std::vector<ChainPoint>& points) {
  std::vector<Option> options;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Option& option = options.emplace_back();
    option.early_peak_bytes = peak_bytes(points[i].choices);
    option.cost = points[i].cost;
    option.replays = static_cast<Index>(i);
    for (const BlockChoice& choice : points[i].choices) {
      option.retained_bytes += choice.option->retained_bytes;
    }
  }
  keep_best(options);
  Menu menu;
  menu.of(CutFate::kept, CutFate::kept) = thinned_options(std::move(options), kNumOptions);
  return menu;
}

}  // namespace

BlockGroup make_group(std::span<const Menu* const> menus, const ChainSize& size) {
  BlockGroup group;
  group.points = fronts(menus, size);
  group.menu = make_menu(group.points);
  return group;
}

}  // namespace gradrecomp::plan
