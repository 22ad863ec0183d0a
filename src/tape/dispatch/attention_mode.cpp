#include "tape/dispatch/attention_mode.h"

#include <cstdint>
#include <vector>

namespace gradrecomp::tape {
namespace {

// LibTorch up to 2.14 does not have it.
template <class Context>
bool uses_flash4(const Context& context) {
  if constexpr (requires { context.userEnabledFA4SDP(); }) return context.userEnabledFA4SDP();
  return false;
}

template <class Context>
void use_flash4(Context& context, bool uses) {
  if constexpr (requires { context.setSDPUseFA4(uses); }) context.setSDPUseFA4(uses);
}

}  // namespace

AttentionMode AttentionMode::current() {
  auto& context = at::globalContext();
  return {.flash = context.userEnabledFlashSDP(),
          .flash3 = context.userEnabledFA3SDP(),
          .flash4 = uses_flash4(context),
          .efficient = context.userEnabledMemEfficientSDP(),
          .math = context.userEnabledMathSDP(),
          .cudnn = context.userEnabledCuDNNSDP(),
          .overrideable = context.userEnabledOverrideableSDP(),
          .reduces_in_16_bits = context.allowFP16BF16ReductionMathSDP(),
          .order = context.sDPPriorityOrder()};
}

void change(const AttentionMode& from, const AttentionMode& to) {
  if (from == to) return;
  auto& context = at::globalContext();
  if (from.flash != to.flash) context.setSDPUseFlash(to.flash);
  if (from.flash3 != to.flash3) context.setSDPUseFA3(to.flash3);
  if (from.flash4 != to.flash4) use_flash4(context, to.flash4);
  if (from.efficient != to.efficient) context.setSDPUseMemEfficient(to.efficient);
  if (from.math != to.math) context.setSDPUseMath(to.math);
  if (from.cudnn != to.cudnn) context.setSDPUseCuDNN(to.cudnn);
  if (from.overrideable != to.overrideable) context.setSDPUseOverrideable(to.overrideable);
  if (from.reduces_in_16_bits != to.reduces_in_16_bits) {
    context.setAllowFP16BF16ReductionMathSDP(to.reduces_in_16_bits);
  }
  if (from.order == to.order) return;
  std::vector<std::int64_t> order;
  for (const at::SDPBackend backend : to.order) order.push_back(static_cast<std::int64_t>(backend));
  context.setSDPPriorityOrder(order);
}

}  // namespace gradrecomp::tape
