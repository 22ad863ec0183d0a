#pragma once

#include <stdexcept>
#include <string_view>

namespace gradrecomp::program {

/// What only the user can correct. The program prints it and exits with status 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws BadInput saying `<where>: <name> is <value>, but must be <requirement>`.
///
/// `requirement` ends with a sentence that says what to do.
[[noreturn]] void reject(std::string_view where, std::string_view name, std::string_view value,
                         std::string_view requirement);

}  // namespace gradrecomp::program
