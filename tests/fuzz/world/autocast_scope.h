#pragma once

#include <ATen/autocast_mode.h>

#include "fuzz/program/program.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {

/// Mixed precision for a scope, as torch.autocast does it. Full precision does nothing.
class AutocastScope {
 public:
  explicit AutocastScope(Precision precision) : is_on_(precision != Precision::full) {
    if (!is_on_) return;
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::set_autocast_dtype(type_,
                                     precision == Precision::half ? at::kHalf : at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!is_on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, was_enabled_);
    at::autocast::set_autocast_dtype(type_, dtype_before_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool is_on_;
  c10::DeviceType type_ = device_of_kernels().type();
  bool was_enabled_ = at::autocast::is_autocast_enabled(type_);
  at::ScalarType dtype_before_ = at::autocast::get_autocast_dtype(type_);
};

}  // namespace gradrecomp::fuzzing
