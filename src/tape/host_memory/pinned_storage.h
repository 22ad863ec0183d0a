#pragma once

#include <c10/core/Storage.h>

#include <cstddef>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Host memory that devices read and write by themselves, from LibTorch's pool of it.
/// Throws: c10::Error if there is none.
c10::Storage pinned_storage(std::size_t num_bytes);

}  // namespace gradrecomp::tape
