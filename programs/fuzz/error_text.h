#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace gradrecomp::fuzzing {

/// The first line of what an error says, without the backtrace that is slow to spell out.
inline std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace gradrecomp::fuzzing
