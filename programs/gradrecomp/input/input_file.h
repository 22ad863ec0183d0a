#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bad_input.h"
#include "input/named_file.h"

namespace gradrecomp::program {

/// What `load`, such as plan::load_plan, makes of `file`.
/// Throws:  BadInput, which says what `load` does but names the option instead of the function.
template <class Load>
auto load_input(const NamedFile& file, const Load& load) {
  try {
    return load(file.path);
  } catch (const std::invalid_argument& error) {
    const std::string_view text = error.what();
    throw BadInput(file.option + std::string(text.substr(std::min(text.find(": "), text.size()))));
  }
}

}  // namespace gradrecomp::program
