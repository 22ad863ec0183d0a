#pragma once

#include <exception>
#include <string>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// True the first time in this process that the operators of these names are to be warned of: a
/// region in every step, or a thousand regions, need not repeat what is known of an op.
bool first_mention(const std::string& names);

/// What went wrong, without the backtrace that LibTorch adds.
std::string text_of(const std::exception& error);

}  // namespace gradrecomp::tape
