#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// What an argument is, what it must be and what to do about it.
struct ArgumentError {
  std::string_view function;
  std::string name;
  std::string value;
  std::string requirement;
  std::string advice;
};

/// Throws:  std::invalid_argument in the one sentence form of all errors of plan/.
[[noreturn]] inline void raise(const ArgumentError& error) {
  std::ostringstream text;
  text << error.function << ": " << error.name << " is " << error.value << ", but must be "
       << error.requirement << ". " << error.advice << '.';
  throw std::invalid_argument(text.str());
}

/// `number` as a person writes it: 0.05, not 0.050000.
template <class Number>
std::string spelled(Number number) {
  std::ostringstream text;
  text << std::boolalpha << number;
  return text.str();
}

}  // namespace gradrecomp::plan
