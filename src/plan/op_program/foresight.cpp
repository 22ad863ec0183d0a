#include "foresight.h"

#include <algorithm>
#include <bit>
#include <utility>

// Note [ Foresight ]
// ~~~~~~~~~~~~~~~~~~
// A program that goes from the last op to the first gives partial plans up once what they have come
// to, and the least that the ops in front add, is more than plans within the limits come to. The
// better that least is known, the fewer are left. A sum over the values in front says little: where
// backward asks for four gates and not for the product that they are made of, each of them seems to
// cost next to nothing.
//
// So a simpler program runs first, from the first op to the last. It knows nothing of visits: a
// value is kept, or made again once, and whatever is asked for asks for what it is made of. That is
// the relaxation whose least is a minimum cut (Note [ Lower bounds ] in relaxation.cpp), with what
// it adds in front of each op tabled by what is asked of the ops there: a value between them and
// the ones behind is there, is asked for, or is missing and not asked for yet. What backward
// demands is asked for if it is not there.
//
// Where a table would be too large it leaves values out, the smallest first, which then take
// nothing and are always there.

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kMostNeeds = 1 << 14;       // of a table
constexpr std::size_t kMostNeedsOfAll = 1 << 22;  // 64 MiB

std::size_t size_of(const auto& slots) {
  return slots.empty() ? 1 : slots.back().stride * slots.back().num_needs;
}

}  // namespace

/// Of the values that enter at an op: which are kept.
struct Foresight::Choice {
  Int128 price = 0;
  std::size_t place = 0;  ///< what it adds to the place in the table in front
  bool replays = false;   ///< it asks for something that the op makes
};

Foresight::Foresight(const TrackedStep& step, const Prices& prices)
    : step_(&step), prices_(&prices) {
  slots_.resize(static_cast<std::size_t>(step.num_ops()) + 1);
  if (!step.is_simple()) {
    least_.assign(slots_.size(), {0});
    return;
  }
  list_slots();
  least_.resize(slots_.size());
  least_.front().assign(1, 0);
  for (Index op = 0; op < step.num_ops(); ++op) look_behind(op);
}

void Foresight::list_slots() {
  for (std::size_t i = 0; i < step_->values().size(); ++i) {
    const TrackedValue& x = step_->value(static_cast<Index>(i));
    for (Index op = x.producer + 1; op <= x.entry; ++op) {
      slots_[op].push_back({.value = static_cast<Index>(i), .num_needs = x.demanded ? 2U : 3U});
    }
  }
  for (Slots& slots : slots_) {
    std::ranges::stable_sort(slots, std::ranges::greater(),
                             [&](const Slot& slot) { return step_->value(slot.value).bytes; });
  }
  for (std::size_t most = kMostNeeds;; most /= 2) {
    number_slots(most);
    std::size_t sum = 0;
    for (const Slots& slots : slots_) sum += size_of(slots);
    if (sum <= kMostNeedsOfAll || most == 1) return;
  }
}

void Foresight::number_slots(std::size_t most_needs) {
  for (Slots& slots : slots_) {
    std::size_t stride = 1;
    for (std::size_t j = 0; j < slots.size(); ++j) {
      if (stride * slots[j].num_needs > most_needs) {
        slots.resize(j);
        break;
      }
      slots[j].stride = stride;
      stride *= slots[j].num_needs;
    }
  }
}

std::size_t Foresight::stride(Index op, Index value) const {
  const auto slot = std::ranges::find(slots_[op], value, &Slot::value);
  return slot == slots_[op].end() ? 0 : slot->stride;
}

std::vector<std::size_t> Foresight::strides_of_inputs(Index op) const {
  std::vector<std::size_t> strides;
  for (const Index u : step_->inputs(op)) {
    const bool may_be_missing = !step_->value(u).demanded && stride(op, u) > 0;
    if (may_be_missing) strides.push_back(stride(op, u));
  }
  return strides;
}

/// The place where those of `inputs` that were missing are asked for.
std::size_t Foresight::asked(std::size_t place, const std::vector<std::size_t>& inputs) {
  constexpr std::size_t kNumNeeds = 3;
  for (const std::size_t stride : inputs) {
    if (place / stride % kNumNeeds == kMissing) place -= stride * (kMissing - kAsked);
  }
  return place;
}

std::vector<Foresight::Choice> Foresight::choices_at(Index op) const {
  std::vector<Choice> choices(1);
  for (const Index i : step_->entering(op)) {
    const TrackedValue& x = step_->value(i);
    const std::size_t num_before = choices.size();
    for (std::size_t j = 0; j < num_before; ++j) {
      if (x.choosable) {
        choices.push_back(choices[j]);
        choices.back().price += prices_->of_kept(x);
      }
      choices[j].price += prices_->of_made(x);
      choices[j].place += stride(op, i) * (x.demanded ? kAsked : kMissing);
      choices[j].replays |= x.demanded && x.producer == op;
    }
  }
  return choices;
}

/// From the table in front of `op` to the one behind it.
void Foresight::look_behind(Index op) {
  const Slots& slots = slots_[op + 1];
  const std::vector<std::size_t> inputs = strides_of_inputs(op);
  const std::vector<Choice> choices = choices_at(op);
  const Int128 cost = prices_->of_replays(prices_->cost(op));
  std::vector<std::size_t> strides_in_front;
  for (const Slot& slot : slots) strides_in_front.push_back(stride(op, slot.value));
  for (std::size_t i = 0; i < size_of(slots); ++i) {
    std::size_t place = 0;
    bool replays = false;
    for (std::size_t j = 0; j < slots.size(); ++j) {
      const std::size_t need = i / slots[j].stride % slots[j].num_needs;
      place += strides_in_front[j] * need;
      replays |= need == kAsked && step_->value(slots[j].value).producer == op;
    }
    Int128 least = -1;
    for (const Choice& choice : choices) {
      std::size_t next = place + choice.place;
      Int128 sum = choice.price;
      if (replays || choice.replays) {
        sum += cost;
        next = asked(next, inputs);
      }
      sum += least_[op][next];
      if (least < 0 || sum < least) least = sum;
    }
    least_[op + 1].push_back(least);
  }
}

Foresight::View Foresight::at(Index op, const std::vector<Index>& values) const {
  View view;
  view.least_ = &least_[op];
  view.prices_ = prices_;
  if (op < step_->num_ops()) {
    view.cost_ = prices_->of_replays(prices_->cost(op));
    view.inputs_ = strides_of_inputs(op);
  }
  for (const Index i : values) {
    const TrackedValue& x = step_->value(i);
    view.values_.push_back({stride(op, i), x.producer == op, x.demanded, x.producer});
  }
  return view;
}

Int128 Foresight::View::least(const OpenStep& open) const {
  std::size_t place = 0;
  bool replays = false;
  for (std::size_t j = 0; j < values_.size(); ++j) {
    const Known& known = values_[j];
    if (open.fates[j] == kKept) continue;
    const bool is_asked = known.demanded || open.fates[j] != kUndecided || open.asking[j] != 0;
    place += known.stride * (is_asked ? kAsked : kMissing);
    replays |= is_asked && known.is_output;
  }
  if (!replays) return (*least_)[place] + of_repeats(open);
  return cost_ + (*least_)[asked(place, inputs_)] + of_repeats(open);
}

/// The table counts one replay of each op. Of those that make the values it may know of more.
Int128 Foresight::View::of_repeats(const OpenStep& open) const {
  const auto times = [&](std::size_t j) {
    return open.fates[j] == kKept ? 0
                                  : std::popcount(open.asking[j]) + std::popcount(open.again[j]);
  };
  Int128 sum = 0;
  for (std::size_t j = 0; j < values_.size(); ++j) {
    const int count = times(j);
    if (count < 2) continue;
    bool is_most = true;  // of what the op makes, or the first of those
    for (std::size_t k = 0; k < values_.size() && is_most; ++k) {
      const bool is_sibling = k != j && values_[k].producer == values_[j].producer;
      is_most = !is_sibling || times(k) < count || (times(k) == count && k > j);
    }
    if (is_most) sum += prices_->of_replays(prices_->cost(values_[j].producer)) * (count - 1);
  }
  return sum;
}

}  // namespace gradrecomp::plan
