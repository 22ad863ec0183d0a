#include "relaxed_costs.h"

#include <algorithm>
#include <cstddef>

namespace gradrecomp::plan {
namespace {

/// From one option of a block to the next one that pays.
struct Saving {
  double bytes = 0;
  double cost = 0;
  std::size_t block = 0;
};

/// By falling bytes per cost.
std::vector<Saving> savings(const Menu& menu, std::size_t block) {
  std::vector<Option> options;
  menu.for_each([&](const Option& option) { options.push_back(option); });
  std::ranges::stable_sort(options, {}, &Option::cost);
  std::vector<Saving> hull;
  const Option* last = &options.front();
  for (const Option& option : options) {
    if (option.retained_bytes >= last->retained_bytes) continue;
    Saving step{static_cast<double>(last->retained_bytes - option.retained_bytes),
                option.cost - last->cost, block};
    last = &option;
    while (!hull.empty() && hull.back().bytes * step.cost <= step.bytes * hull.back().cost) {
      step.bytes += hull.back().bytes;
      step.cost += hull.back().cost;
      hull.pop_back();
    }
    hull.push_back(step);
  }
  return hull;
}

}  // namespace

std::vector<double> relaxed_costs(std::span<const Menu* const> menus, double budget) {
  std::vector<Saving> all;
  for (std::size_t k = 0; k < menus.size(); ++k) {
    const std::vector<Saving> of_block = savings(*menus[k], k);
    all.insert(all.end(), of_block.begin(), of_block.end());
  }
  std::ranges::stable_sort(
      all, [](const Saving& a, const Saving& b) { return a.bytes * b.cost > b.bytes * a.cost; });
  std::vector<double> costs(menus.size(), 0);
  for (const Saving& saving : all) {
    if (budget <= 0) break;
    const double part = std::min(saving.cost, budget);
    costs[saving.block] += part;
    budget -= part;
  }
  return costs;
}

}  // namespace gradrecomp::plan
