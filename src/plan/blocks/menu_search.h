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
  [[nodiscard]] std::vector<Option> at_once(int num_options, bool keeps_least) const;

  /// The same sets of kept values where dropped ones wait for their own demand; without sets that
  /// gain nothing by it.
  [[nodiscard]] std::vector<Option> just_in_time(int num_options);

  /// All of the same sets, with this timing.
  [[nodiscard]] std::vector<Option> timed(const Timing& timing, int num_options);

 private:
  struct Entry {
    Option option;
    bool tried = false;
  };

  static void add(std::vector<Entry>& entries, const Option& option);
  static std::vector<Option> thinned(const std::vector<Entry>& entries, int num_options,
                                     bool keeps_least = false);
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
