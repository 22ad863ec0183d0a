#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <vector>

#include "tape/op.h"

namespace gradrecomp::tape {

struct OpTraits;

/// The state of the generator that `op` draws from on `device`; null on devices that have none, and
/// for one that cannot be read.
std::unique_ptr<const RngState> rng_state_of(const Op& op, c10::Device device);

/// Whether an operator that is not LibTorch's own draws random numbers, as its tags may not say.
class UntaggedDraws {
 public:
  UntaggedDraws(const OpTraits& traits, const Op& op, std::optional<c10::Device> device);
  [[nodiscard]] bool may_have_happened() const;

 private:
  std::vector<std::unique_ptr<const RngState>> states_;
  bool is_capturing_ = false;  // when states must not be read
};

}  // namespace gradrecomp::tape
