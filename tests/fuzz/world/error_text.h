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

/// What kind of error says `text`: all before its details, such as names, shapes and versions.
/// Autograd has several texts for what was written in place, by whatever it looks at first.
inline std::string kind_of_error(const std::string& text) {
  if (text.find("inplace") != std::string::npos) return "written in place";
  return text.substr(0, text.find_first_of(":[(0123456789"));
}

}  // namespace gradrecomp::fuzzing
