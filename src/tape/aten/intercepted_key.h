#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/DispatchKeySet.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// What a thread includes while it records, and excludes to be left alone.
inline constexpr auto kInterceptedKey = c10::DispatchKey::Fake;

/// The keys of a call with `tensor` alone, once the recorder has taken it.
inline c10::DispatchKeySet keys_below(const at::TensorBase& tensor) {
  return tensor.key_set() & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kInterceptedKey);
}

}  // namespace gradrecomp::tape
