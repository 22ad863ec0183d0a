#pragma once

#include <c10/core/Device.h>

#include "gradrecomp/version.h"
#include "tape/dispatch/op_traits.h"
#include "tape/op.h"

namespace gradrecomp::tape {

/// Whether `op`, of that kind, may give other bits when it runs again on `device`.
bool may_differ(Fickle kind, const Op& op, c10::Device device);

}  // namespace gradrecomp::tape
