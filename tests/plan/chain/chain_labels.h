#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "chain_choices.h"

namespace gradrecomp::plan {

/// The least cost of a chain's plans within a peak, where ops are replayed once: exactly.
///
/// From the first block to the last, for one limit at a time, it carries on every partial plan of
/// which no other has less cost, less retained and less swept bytes: no buckets. What cannot end
/// within a known cost goes, by the cost of the blocks to come if replays swept nothing.
class ChainLabels {
 public:
  ChainLabels(std::span<const Menu* const> menus, std::int64_t max_peak_bytes)
      : max_peak_bytes_(max_peak_bytes), ahead_(menus.size() + 1, kNothing) {
    for (const Menu* menu : menus) blocks_.push_back(choices_of(*menu));
    for (double& cost : of(ahead_.back(), CutFate::kept)) cost = 0;
    for (std::size_t k = menus.size(); k-- > 0;) look_ahead(k);
  }

  /// Infinite if no plan costs at most `known`.
  [[nodiscard]] double least_cost(double known) const {
    Front front;
    of(front, CutFate::kept).push_back({});
    for (std::size_t k = 0; k < blocks_.size(); ++k) front = extended(front, k, known);
    double least = kNone;
    for (const Label& label : of(front, CutFate::kept)) least = std::min(least, label.cost);
    return least;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kNumSteps = 4000;  // of retained bytes; costs ahead round down

  /// What is before a cut.
  struct Label {
    double cost = 0;
    std::int64_t retained_bytes = 0;
    std::int64_t swept_bytes = 0;
  };
  using Front = PerFate<std::vector<Label>>;
  using Ahead = PerFate<std::vector<double>>;  ///< per step of retained bytes

  inline static const std::vector<double> kNowhere = std::vector(kNumSteps + 1, kNone);
  inline static const Ahead kNothing{kNowhere, kNowhere, kNowhere, kNowhere};

  [[nodiscard]] std::size_t step(std::int64_t bytes) const {
    return static_cast<std::size_t>(bytes) * kNumSteps / static_cast<std::size_t>(max_peak_bytes_);
  }
  [[nodiscard]] std::int64_t bytes(std::size_t step) const {
    return static_cast<std::int64_t>(step) * max_peak_bytes_ / static_cast<std::int64_t>(kNumSteps);
  }

  [[nodiscard]] bool fits(const BlockChoice& choice, const Label& label) const {
    const std::int64_t behind = label.retained_bytes + choice.option->retained_bytes;
    const std::int64_t early = label.retained_bytes + choice.option->early_peak_bytes;
    const std::int64_t late =
        label.retained_bytes + label.swept_bytes + peak_on_swept_bytes(choice);
    return std::max({behind, early, late}) <= max_peak_bytes_;
  }

  void look_ahead(std::size_t k) {
    for (std::size_t s = 0; s <= kNumSteps; ++s) {
      const Label label{0, bytes(s), 0};
      for (const BlockChoice& choice : blocks_[k]) {
        if (!fits(choice, label)) continue;
        double& least = of(ahead_[k], choice.in)[s];
        const std::size_t then = step(label.retained_bytes + choice.option->retained_bytes);
        least = std::min(least, choice.option->cost + of(ahead_[k + 1], choice.out)[then]);
      }
    }
  }

  [[nodiscard]] Front extended(const Front& front, std::size_t k, double known) const {
    Front made;
    for (const BlockChoice& choice : blocks_[k]) {
      const Option& o = *choice.option;
      for (const Label& label : of(front, choice.in)) {
        if (!fits(choice, label)) continue;
        const Label next{label.cost + o.cost, label.retained_bytes + o.retained_bytes,
                         swept_bytes(choice) + (goes_on(choice) ? label.swept_bytes : 0)};
        const double ahead = of(ahead_[k + 1], choice.out)[step(next.retained_bytes)];
        if (next.cost + ahead <= known) of(made, choice.out).push_back(next);
      }
    }
    for (std::vector<Label>& labels : made) labels = unbeaten(std::move(labels));
    return made;
  }

  static std::vector<Label> unbeaten(std::vector<Label> labels) {
    std::ranges::sort(labels, {}, [](const Label& l) {
      return std::tuple(l.cost, l.retained_bytes, l.swept_bytes);
    });
    std::map<std::int64_t, std::int64_t> least_swept;  // by retained bytes, falling
    std::erase_if(labels, [&](const Label& label) {
      auto next = least_swept.upper_bound(label.retained_bytes);
      if (next != least_swept.begin() && std::prev(next)->second <= label.swept_bytes) return true;
      while (next != least_swept.end() && next->second >= label.swept_bytes) {
        next = least_swept.erase(next);
      }
      least_swept[label.retained_bytes] = label.swept_bytes;
      return false;
    });
    return labels;
  }

  std::int64_t max_peak_bytes_;
  std::vector<std::vector<BlockChoice>> blocks_;
  std::vector<Ahead> ahead_;  ///< per cut: the least cost of the blocks to come
};

}  // namespace gradrecomp::plan
