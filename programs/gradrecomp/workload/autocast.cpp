#include "workload/autocast.h"

#include <ATen/autocast_mode.h>

namespace gradrecomp::program {

Autocast::Autocast(c10::Device device, std::optional<c10::ScalarType> type)
    : device_(device), is_on_(type.has_value()) {
  if (!is_on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_.type());
  type_before_ = at::autocast::get_autocast_dtype(device_.type());
  at::autocast::set_autocast_enabled(device_.type(), true);
  at::autocast::set_autocast_dtype(device_.type(), *type);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!is_on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_.type(), was_enabled_);
  at::autocast::set_autocast_dtype(device_.type(), type_before_);
}

}  // namespace gradrecomp::program
