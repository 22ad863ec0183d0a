#include "tape/calls/draws.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "tape/aten/capture.h"
#include "tape/dispatch/op_traits.h"

namespace gradrecomp::tape {
namespace {

void add_generators(const c10::IValue& argument, std::vector<at::Generator>& found) {
  if (argument.isGenerator()) {
    const at::Generator generator = argument.toGenerator();
    if (generator.defined() && std::ranges::count(found, generator) == 0) {
      found.push_back(generator);
    }
  } else if (argument.isList() && !argument.isIntList()) {
    for (const c10::IValue& item : argument.toListRef()) add_generators(item, found);
  } else if (argument.isTuple()) {
    for (const c10::IValue& item : argument.toTupleRef().elements()) add_generators(item, found);
  }
}

std::vector<at::Generator> generators_of(const Op& op) {
  std::vector<at::Generator> found;
  for (const c10::IValue& argument : op.arguments) add_generators(argument, found);
  return found;
}

/// Where an operator that names no device may make something all the same.
std::optional<c10::Device> accelerator() {
  const auto type = at::getAccelerator();
  if (!type || !at::globalContext().getAcceleratorHooksInterface(type).isAvailable()) {
    return std::nullopt;
  }
  return c10::impl::VirtualGuardImpl(*type).getDevice();
}

bool has_gone_on(const std::unique_ptr<const RngState>& state) { return !state->is_current(); }

// What seeds and then draws, twice in a row, leaves the generator as it finds it. What another
// thread draws meanwhile looks like a draw, too, but not often.
bool draws_at_times(const OpTraits& traits) {
  constexpr std::int64_t kSeldom = 8;  // of so many calls
  return kSeldom * traits.num_drew > traits.num_watched;
}

}  // namespace

std::unique_ptr<const RngState> rng_state_of(const Op& op, c10::Device device) {
  const auto given = generators_of(op);
  if (given.size() > 1) return nullptr;
  if (given.size() == 1) return RngState::of(given.front());
  return device.is_meta() ? nullptr : RngState::of_default(device, RngState::Lock::waits);
}

UntaggedDraws::UntaggedDraws(const OpTraits& traits, const Op& op,
                             std::optional<c10::Device> device)
    : traits_(traits) {
  if (!traits.has_other_kernel() || !op.replayable) return;
  // It may draw from a copy of what it is given, too, which then stays as it is.
  if (op.rng == nullptr && !generators_of(op).empty()) may_go_unseen_ = true;
  if (is_capturing()) may_go_unseen_ = true;  // when states must not be read
  if (may_go_unseen_) return;
  watch(c10::kCPU, op);
  if (!device) device = accelerator();
  if (device && !device->is_cpu() && !device->is_meta()) watch(*device, op);
  if (draws_at_times(traits)) may_go_unseen_ = true;  // watched all the same: that may end
}

void UntaggedDraws::watch(c10::Device device, const Op& op) {
  auto state = RngState::of_default(device);
  if (state == nullptr) {
    may_go_unseen_ = true;
  } else if (op.rng == nullptr || !op.rng->has_generator_of(*state)) {
    states_.push_back(std::move(state));
  }
}

bool UntaggedDraws::may_have_happened() const {
  const bool has_happened = std::ranges::any_of(states_, has_gone_on);
  if (!states_.empty()) ++traits_.num_watched;
  if (has_happened) ++traits_.num_drew;
  return may_go_unseen_ || has_happened;
}

}  // namespace gradrecomp::tape
