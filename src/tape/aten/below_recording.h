#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "gradrecomp/version.h"
#include "tape/aten/intercepted_key.h"

namespace gradrecomp::tape {

/// While it lives, operators that this thread calls go to kernels at once: seen by neither autograd
/// nor a recorder, and by no mode or transform that the program has on. For the tape's own work,
/// whose tensors are none of the program's.
class BelowRecording {
 public:
  BelowRecording() : keys_(kIncluded, kExcluded) {}

 private:
  static constexpr c10::DispatchKeySet kIncluded{c10::DispatchKey::BackendSelect};
  static constexpr c10::DispatchKeySet kExcluded =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::default_excluded_set |
      c10::DispatchKeySet(
          {kInterceptedKey, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace gradrecomp::tape
