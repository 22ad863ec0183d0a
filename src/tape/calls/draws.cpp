#include "tape/calls/draws.h"

#include <ATen/Context.h>

#include <algorithm>

#include "tape/aten/capture.h"
#include "tape/dispatch/op_traits.h"

namespace gradrecomp::tape {
namespace {

std::optional<at::Generator> generator_of(const Op& op, c10::Device device) {
  for (const auto& argument : op.arguments) {
    if (argument.isGenerator() && argument.toGenerator().defined()) return argument.toGenerator();
  }
  if (device.is_meta()) return std::nullopt;
  return at::globalContext().defaultGenerator(device);
}

bool is_known_to_be_current(const std::unique_ptr<const RngState>& state) {
  return state != nullptr && state->is_current();
}

}  // namespace

std::unique_ptr<const RngState> rng_state_of(const Op& op, c10::Device device) {
  const auto generator = generator_of(op, device);
  return generator ? RngState::of(*generator) : nullptr;
}

UntaggedDraws::UntaggedDraws(const OpTraits& traits, const Op& op,
                             std::optional<c10::Device> device) {
  if (!traits.foreign || traits.seeded || !op.replayable) return;
  is_capturing_ = is_capturing();
  if (is_capturing_) return;
  states_.push_back(RngState::of(at::globalContext().defaultGenerator(c10::kCPU)));
  if (!device) return;
  const auto generator = generator_of(op, *device);
  if (generator) states_.push_back(RngState::of(*generator));
}

bool UntaggedDraws::may_have_happened() const {
  return is_capturing_ || !std::ranges::all_of(states_, is_known_to_be_current);
}

}  // namespace gradrecomp::tape
