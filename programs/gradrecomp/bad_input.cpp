#include "bad_input.h"

#include <fmt/format.h>

namespace gradrecomp::program {

void reject(std::string_view where, std::string_view name, std::string_view value,
            std::string_view requirement) {
  throw BadInput(fmt::format("{}: {} is {}, but must be {}", where, name, value, requirement));
}

}  // namespace gradrecomp::program
