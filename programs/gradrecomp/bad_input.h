#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace gradrecomp::program {

/// What only the user can correct. The program prints it and exits with status 2.
class BadInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Throws BadInput saying `<name> is <value>, but must be <requirement>`.
///
/// `name` is what the user wrote, such as an option. `requirement` ends with a full stop.
[[noreturn]] inline void reject(std::string_view name, std::string_view value,
                                std::string_view requirement) {
  throw BadInput(
      fmt::format("{} is {}, but must be {}", name, value.empty() ? "empty" : value, requirement));
}

}  // namespace gradrecomp::program
