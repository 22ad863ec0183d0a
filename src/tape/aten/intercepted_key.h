#pragma once

#include <c10/core/DispatchKey.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// What a thread includes while it records, and excludes to be left alone.
inline constexpr auto kInterceptedKey = c10::DispatchKey::Fake;

}  // namespace gradrecomp::tape
