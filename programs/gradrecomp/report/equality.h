#pragma once

#include <cstdint>
#include <string_view>

namespace gradrecomp::program {

/// How the steps of an arm compare with the first plain step, bit for bit.
enum class Equality : std::uint8_t {
  yes,
  no,
  plain_differs,  ///< not equal, but neither are plain steps, so that it says nothing of the arm
};

/// What follows from whether all steps of the arm, and all plain steps, equalled the first.
Equality equality(bool arm_equal, bool plain_equal);

/// "yes", "NO" or "plain itself differs".
std::string_view to_string(Equality equality);

}  // namespace gradrecomp::program
