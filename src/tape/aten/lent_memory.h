#pragma once

#include <c10/core/StorageImpl.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Whether somebody else than LibTorch's allocators lent the memory of `storage`, through
/// from_blob(), a mapped file and the like. What frees it or writes to it, and when, is not ours to
/// know.
[[nodiscard]] bool is_lent(const c10::StorageImpl& storage);

}  // namespace gradrecomp::tape
