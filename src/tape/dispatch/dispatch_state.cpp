#include "tape/dispatch/dispatch_state.h"

#include <ATen/autocast_mode.h>

namespace gradrecomp::tape {

DispatchState::DispatchState(const NumericMode& mode)
    : keys_(c10::impl::tls_local_dispatch_key_set()),
      wants_gradients_(c10::GradMode::is_enabled()),
      mode_(mode) {
  const auto casting = c10::autocast_dispatch_keyset - keys_.excluded_;
  if (casting.empty()) return;
  for (const auto device : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    if (!at::autocast::is_autocast_enabled(device)) continue;
    casts_.emplace_back(device, at::autocast::get_autocast_dtype(device));
  }
}

bool DispatchState::operator==(const DispatchState& other) const {
  return keys_.included_ == other.keys_.included_ && keys_.excluded_ == other.keys_.excluded_ &&
         casts_ == other.casts_ && wants_gradients_ == other.wants_gradients_ &&
         mode_ == other.mode_;
}

bool DispatchState::lasts_without_autocast() const {
  const auto now = c10::impl::tls_local_dispatch_key_set();
  const bool may_cast = !(c10::autocast_dispatch_keyset - now.excluded_).empty();
  return !may_cast && casts_.empty() && keys_.included_ == now.included_ &&
         keys_.excluded_ == now.excluded_ && wants_gradients_ == c10::GradMode::is_enabled();
}

DispatchScope::DispatchScope(const DispatchState& state)
    : keys_(state.keys()),
      gradients_(state.wants_gradients()),
      keeps_casts_before_(at::autocast::is_autocast_cache_enabled()) {
  // All of them, as what runs in the scope may set any.
  for (const auto device : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    casts_before_.emplace_back(device, at::autocast::get_autocast_dtype(device));
  }
  at::autocast::set_autocast_cache_enabled(false);
  for (const auto& [device, type] : state.casts()) at::autocast::set_autocast_dtype(device, type);
}

DispatchScope::~DispatchScope() {
  at::autocast::set_autocast_cache_enabled(keeps_casts_before_);
  for (const auto& [device, type] : casts_before_) at::autocast::set_autocast_dtype(device, type);
}

}  // namespace gradrecomp::tape
