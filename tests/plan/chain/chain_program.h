#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "chain_choices.h"
#include "support/plan/milp.h"

namespace gradrecomp::plan {

/// Note [ Chains ] for plans that replay ops once, as an integer program from the first block to
/// the last: one option for each block, and a peak within a limit.
///
/// Of each cut it knows the bytes that the blocks before retain, and those that the replay running
/// across it sweeps there: none where the boundary is kept. Both are shares of the limit. They rest
/// on every peak of the next block, so that only the end of a run needs a large coefficient.
class ChainProgram {
 public:
  using Milp = test::Milp;

  ChainProgram(std::span<const Menu* const> menus, std::int64_t max_peak_bytes)
      : max_peak_bytes_(max_peak_bytes), before_(add_cut()) {
    milp_.add_equation({{before_.retained, 1}}, 0);
    milp_.add_equation({{before_.swept, 1}}, 0);
    for (const Menu* menu : menus) add_block(*menu);
    milp_.add_row(
        weighed([](const BlockChoice& choice) { return choice.out == CutFate::dropped ? 1 : 0; }),
        0);
  }

  /// What the cheapest plan costs. To be used once.
  Milp cheapest() && {
    for (const auto& [variable, cost] : costs_) milp_.set_cost(variable, cost);
    return std::move(milp_);
  }

  /// Whether any plan costs that little, which is easier to answer. To be used once.
  Milp any_up_to(double cost) && {
    Milp::Terms terms = costs_;
    for (auto& [variable, coefficient] : terms) coefficient *= kScale;
    milp_.add_row(std::move(terms), kScale * cost);
    return std::move(milp_);
  }

 private:
  static constexpr double kScale = 1000;  // so that the solver's rounding is a fraction of a byte

  struct Cut {
    Milp::Variable retained;
    Milp::Variable swept;
  };
  struct Chosen {
    BlockChoice choice;
    Milp::Variable variable;
  };

  Cut add_cut() { return {milp_.add_continuous(), milp_.add_continuous()}; }

  void add_block(const Menu& menu) {
    const std::vector<Chosen> last = std::exchange(block_, {});
    for (const BlockChoice& choice : choices_of(menu)) {
      block_.push_back({choice, milp_.add_binary()});
      costs_[block_.back().variable] = choice.option->cost;
    }
    milp_.add_equation(weighed([](const BlockChoice&) { return 1; }), 1);
    if (!last.empty()) agree_with(last);
    add_peaks();
    const Cut after = add_cut();
    add_retained(after);
    add_swept(after);
    before_ = after;
  }

  /// On the fate of the cut.
  void agree_with(const std::vector<Chosen>& last) {
    Milp::Terms terms =
        weighed([](const BlockChoice& choice) { return choice.in == CutFate::kept ? 1 : 0; });
    for (const auto& [choice, variable] : last) {
      if (choice.out == CutFate::kept) terms[variable] = -1;
    }
    milp_.add_equation(std::move(terms), 0);
  }

  void add_peaks() {
    milp_.add_row(weighed([&](const BlockChoice& c) { return share(c.option->early_peak_bytes); },
                          {{before_.retained, kScale}}),
                  kScale);
    milp_.add_row(weighed([&](const BlockChoice& c) { return share(peak_on_swept_bytes(c)); },
                          {{before_.retained, kScale}, {before_.swept, kScale}}),
                  kScale);
  }

  void add_retained(const Cut& after) {
    milp_.add_equation(
        weighed([&](const BlockChoice& c) { return share(c.option->retained_bytes); },
                {{before_.retained, kScale}, {after.retained, -kScale}}),
        0);
  }

  void add_swept(const Cut& after) {
    const auto made = [&](const BlockChoice& c) { return share(swept_bytes(c)); };
    milp_.add_row(weighed([&](const BlockChoice& c) { return -share(most_swept(c)); },
                          {{before_.swept, kScale}}),
                  0);
    // Of its own, as the next row says nothing where a run ends here.
    milp_.add_row(weighed(made, {{after.swept, -kScale}}), 0);
    milp_.add_row(
        weighed(
            [&](const BlockChoice& c) { return made(c) - (goes_on(c) ? 0 : share(most_swept(c))); },
            {{before_.swept, kScale}, {after.swept, -kScale}}),
        0);
    find_most_swept();
  }

  /// The most that may be swept before the block if it is to stay within the limit.
  [[nodiscard]] std::int64_t most_swept(const BlockChoice& choice) const {
    if (choice.in == CutFate::kept) return 0;
    const std::int64_t room = max_peak_bytes_ - least_retained_bytes_ - peak_on_swept_bytes(choice);
    return std::clamp<std::int64_t>(room, 0, most_swept_bytes_);
  }

  void find_most_swept() {
    std::int64_t most = 0;
    std::int64_t least = max_peak_bytes_;
    for (const auto& [choice, variable] : block_) {
      most = std::max(most, swept_bytes(choice) + (goes_on(choice) ? most_swept(choice) : 0));
      least = std::min(least, choice.option->retained_bytes);
    }
    most_swept_bytes_ = most;
    least_retained_bytes_ += least;
  }

  [[nodiscard]] double share(std::int64_t bytes) const {
    return kScale * static_cast<double>(bytes) / static_cast<double>(max_peak_bytes_);
  }

  /// The block's choices, each with its weight, beside `terms`.
  template <typename Weight>
  [[nodiscard]] Milp::Terms weighed(Weight weight, Milp::Terms terms = {}) const {
    for (const auto& [choice, variable] : block_) {
      const double coefficient = weight(choice);
      if (coefficient != 0) terms[variable] = coefficient;
    }
    return terms;
  }

  Milp milp_;
  std::int64_t max_peak_bytes_;
  Milp::Terms costs_;
  std::vector<Chosen> block_;  ///< the current one
  Cut before_;
  std::int64_t most_swept_bytes_ = 0;      ///< before the current block, under any plan
  std::int64_t least_retained_bytes_ = 0;  ///< likewise
};

}  // namespace gradrecomp::plan
