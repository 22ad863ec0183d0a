#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gradrecomp/plan/plan.h"

namespace gradrecomp::tape {

using plan::Offload;

/// Which kept values of one op sequence are away for a while, in host memory or in rounded copies,
/// and when.
class AbsencePlan {
 public:
  struct Leaving {
    std::int32_t value = -1;
    std::int32_t after = -1;  ///< the op
    bool rounded = false;
  };

  AbsencePlan(std::vector<Offload> offloads, const std::vector<plan::Rounding>& roundings);

  /// Whether it goes to host memory.
  [[nodiscard]] bool offloads(std::int32_t value) const;
  /// Whether it is left to be rounded.
  [[nodiscard]] bool rounds(std::int32_t value) const;
  /// Those that leave after ops from `first` to `last`.
  [[nodiscard]] std::span<const Leaving> leaving(std::int32_t first, std::int32_t last) const;
  /// Those whose way back starts with the demand of `value`.
  [[nodiscard]] std::span<const Offload> returning(std::int32_t value) const;

 private:
  std::vector<Offload> by_value_;
  std::vector<std::int32_t> rounded_;  // sorted
  std::vector<Leaving> by_op_;
  std::vector<Offload> by_demand_;
};

/// Null: all that is kept stays what and where it is.
using Absences = std::shared_ptr<const AbsencePlan>;

}  // namespace gradrecomp::tape
