#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <vector>

#include "tape/op.h"

namespace gradrecomp::tape {

struct OpTraits;

/// The state of the generator that `op` draws from on `device`; null on devices that have none, for
/// one that cannot be read, and if it is given several.
std::unique_ptr<const RngState> rng_state_of(const Op& op, c10::Device device);

/// Whether an operator with a kernel that is not LibTorch's own draws random numbers, as its tags
/// may not say, or has a generator to draw from, other than that of `Op::rng`.
class UntaggedDraws {
 public:
  UntaggedDraws(const OpTraits& traits, const Op& op, std::optional<c10::Device> device);
  [[nodiscard]] bool may_have_happened() const;

 private:
  void watch(c10::Device device, const Op& op);

  const OpTraits& traits_;
  std::vector<std::unique_ptr<const RngState>> states_;
  bool may_go_unseen_ = false;
};

}  // namespace gradrecomp::tape
