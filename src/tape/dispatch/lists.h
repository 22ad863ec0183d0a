#pragma once

#include <ATen/core/ivalue.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Whether an argument is a list of numbers or of tensors, in which no other list can be.
bool is_flat_list(const c10::IValue& argument);

/// An argument as it is, or a copy of it if it is a list: with the same content, and no list in
/// common with it.
c10::IValue with_own_lists(const c10::IValue& argument);

}  // namespace gradrecomp::tape
