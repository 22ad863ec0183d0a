#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "block_graph.h"
#include "option.h"
#include "option_meter.h"

namespace gradrecomp::plan {

/// The search for the options of a block for one fate of its cuts; see Note [ Menus ] in
/// menu_search.cpp.
class MenuSearch {
 public:
  MenuSearch(OptionMeter& meter, int num_simulations);

  /// The options whose dropped values replays leave behind at once.
  [[nodiscard]] std::vector<Option> at_once(int num_options) const;

  /// The same sets of kept values, where values wait for their own demand, but for those that
  /// `timing` names. Without those that gain nothing by it, unless all are `wanted`.
  std::vector<Option> just_in_time(const Timing& timing, int num_options, bool wanted = false);

 private:
  struct Entry {
    Option option;
    bool tried = false;
  };

  [[nodiscard]] std::uint64_t saved() const;
  void try_set(std::uint64_t kept);

  const BlockGraph& block_;
  OptionMeter& meter_;
  std::size_t num_choices_;
  int left_ = 0;
  std::vector<Entry> entries_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace gradrecomp::plan
