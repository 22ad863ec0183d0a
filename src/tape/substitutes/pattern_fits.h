#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tape/op.h"

namespace gradrecomp::tape {

/// Which formulas have the bits of which calls on patterns, as far as a step has found out: calls
/// of a kind are compared once.
///
/// Calls are of a kind if nothing differs but values and, where those only count the vectors that a
/// kernel does, sizes.
class PatternFits {
 public:
  /// Whether `formula` has the bits of the call: as for the last one of its kind or, if this is the
  /// first, as `compare` says.
  bool fits(const Op& op, int formula, const std::function<bool()>& compare);

  [[nodiscard]] std::size_t num_kinds() const { return known_.size(); }

 private:
  /// Of a call and a formula.
  struct Kind {
    DispatchState dispatch_state;
    std::vector<std::int64_t> facts;
    bool operator==(const Kind& other) const;
  };
  struct Known {
    Kind kind;
    bool fits;
  };

  /// None for calls with arguments that cannot be compared.
  static std::optional<Kind> kind_of(const Op& op, int formula);

  std::vector<Known> known_;
};

}  // namespace gradrecomp::tape
