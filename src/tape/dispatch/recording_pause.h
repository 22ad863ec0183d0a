#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "gradrecomp/version.h"
#include "tape/aten/intercepted_key.h"

namespace gradrecomp::tape {

/// Stops recording on this thread for a scope.
class RecordingPause {
 public:
  RecordingPause() : excluded_(kInterceptedKey) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard excluded_;
};

}  // namespace gradrecomp::tape
