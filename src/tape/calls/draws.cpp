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

bool is_known_to_be_current(const std::unique_ptr<const RngState>& state) {
  return state != nullptr && state->is_current();
}

}  // namespace

std::unique_ptr<const RngState> rng_state_of(const Op& op, c10::Device device) {
  const auto given = generators_of(op);
  if (given.size() > 1) return nullptr;
  if (given.size() == 1) return RngState::of(given.front());
  return device.is_meta() ? nullptr : RngState::of_default(device);
}

UntaggedDraws::UntaggedDraws(const OpTraits& traits, const Op& op,
                             std::optional<c10::Device> device)
    : traits_(traits) {
  const bool has_other_kernel = traits.foreign || traits.overridden;
  if (!has_other_kernel || !op.replayable) return;
  if (traits.has_drawn) may_go_unseen_ = true;
  // It may draw from a copy of what it is given, too, which then stays as it is.
  if (op.rng == nullptr && !generators_of(op).empty()) may_go_unseen_ = true;
  if (is_capturing()) may_go_unseen_ = true;  // when states must not be read
  if (may_go_unseen_) return;
  watch(c10::kCPU, op);
  if (!device) device = accelerator();
  if (device && !device->is_cpu() && !device->is_meta()) watch(*device, op);
}

void UntaggedDraws::watch(c10::Device device, const Op& op) {
  auto state = RngState::of_default(device);
  const bool is_restored = state && op.rng && op.rng->has_generator_of(*state);
  if (!is_restored) states_.push_back(std::move(state));
}

// One that has drawn may do so again and leave everything as it finds it, if it also seeds.
bool UntaggedDraws::may_have_happened() const {
  if (may_go_unseen_) return true;
  const bool has_happened = !std::ranges::all_of(states_, is_known_to_be_current);
  if (has_happened) traits_.has_drawn = true;
  return has_happened;
}

}  // namespace gradrecomp::tape
