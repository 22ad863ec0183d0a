#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gradrecomp/plan/plan.h"

namespace gradrecomp::tape {

using plan::Offload;

/// Which values of one op sequence go to host memory, and when.
class OffloadPlan {
 public:
  explicit OffloadPlan(std::vector<Offload> offloads);

  [[nodiscard]] bool takes(std::int32_t value) const;
  /// Those that leave after ops from `first` to `last`.
  [[nodiscard]] std::span<const Offload> leaving(std::int32_t first, std::int32_t last) const;
  /// Those whose way back starts with the demand of `value`.
  [[nodiscard]] std::span<const Offload> returning(std::int32_t value) const;

 private:
  std::vector<Offload> by_value_;
  std::vector<Offload> by_op_;
  std::vector<Offload> by_demand_;
};

/// Null: all that is kept stays where it is.
using Offloads = std::shared_ptr<const OffloadPlan>;

}  // namespace gradrecomp::tape
