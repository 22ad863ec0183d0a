#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "open_step.h"
#include "plan/bounds/int128.h"
#include "prices.h"
#include "tracked_step.h"

namespace gradrecomp::plan {

/// What the ops in front of an op add by prices at least, by what is asked of them.
///
/// See Note [ Foresight ] in foresight.cpp.
/// Lifetime: refers to what it is made of.
class Foresight {
 public:
  /// For partial plans that know of the same values.
  class View;

  Foresight(const TrackedStep& step, const Prices& prices);

  /// Whatever is asked of the ops before `op`.
  [[nodiscard]] Int128 least_before(Index op) const { return least_[op].front(); }
  /// Where the program is at `op`, and `values` have entered.
  [[nodiscard]] View at(Index op, const std::vector<Index>& values) const;

 private:
  /// What becomes of a value between two ops: each is one digit of a place in a table.
  enum Need : std::uint8_t { kThere, kAsked, kMissing };
  struct Slot {
    Index value = -1;
    std::size_t num_needs = 2;
    std::size_t stride = 0;
  };
  using Slots = std::vector<Slot>;
  struct Choice;

  void list_slots();
  void number_slots(std::size_t most_needs);
  void look_behind(Index op);
  [[nodiscard]] std::vector<Choice> choices_at(Index op) const;
  [[nodiscard]] std::size_t stride(Index op, Index value) const;
  /// Of the missing ones among what `op` reads.
  [[nodiscard]] std::vector<std::size_t> strides_of_inputs(Index op) const;
  [[nodiscard]] static std::size_t asked(std::size_t place, const std::vector<std::size_t>& inputs);

  const TrackedStep* step_;
  const Prices* prices_;
  std::vector<Slots> slots_;                ///< per op: values between it and the ops in front
  std::vector<std::vector<Int128>> least_;  ///< per op, by the needs of its slots
};

class Foresight::View {
 public:
  /// The least that is yet to be added.
  [[nodiscard]] Int128 least(const OpenStep& open) const;

 private:
  friend class Foresight;

  /// A value that has entered.
  struct Known {
    std::size_t stride = 0;  ///< 0: the table does not tell
    bool is_output = false;
    bool demanded = false;
    Index producer = -1;
  };

  [[nodiscard]] Int128 of_repeats(const OpenStep& open) const;

  const std::vector<Int128>* least_ = nullptr;
  const Prices* prices_ = nullptr;
  Int128 cost_ = 0;                  ///< of a replay of the op
  std::vector<std::size_t> inputs_;  ///< strides of those that it may find missing
  std::vector<Known> values_;
};

}  // namespace gradrecomp::plan
