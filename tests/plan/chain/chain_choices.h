#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain/chain.h"

namespace gradrecomp::plan {

template <typename T>
auto& of(T& per_fate, CutFate fate) {
  return per_fate[position(fate)];
}

/// The choices of one block in plans that replay ops once, and what Note [ Chains ] makes of them.

inline std::vector<BlockChoice> choices_of(const Menu& menu) {
  std::vector<BlockChoice> choices;
  for (const CutFate out : kCutFates) {
    for (const CutFate in : kCutFates) {
      for (const Option& option : menu.of(out, in)) {
        if (!option.timing.just_in_time) choices.push_back({&option, out, in});
      }
    }
  }
  return choices;
}

/// The replay that a later block sets off runs through to the blocks before.
inline bool goes_on(const BlockChoice& choice) {
  return choice.out != CutFate::kept && choice.in != CutFate::kept && choice.option->linked;
}

/// What a later block's replay leaves behind of this one.
inline std::int64_t swept_bytes(const BlockChoice& choice) {
  return choice.out == CutFate::kept ? 0 : choice.option->swept_bytes;
}

/// The peak while what replays swept of the blocks before lives too.
inline std::int64_t peak_on_swept_bytes(const BlockChoice& choice) {
  return goes_on(choice) ? choice.option->early_peak_bytes : choice.option->late_peak_bytes;
}

}  // namespace gradrecomp::plan
