#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gradrecomp/export.h"

namespace gradrecomp::plan {

/// A signature as files, reports and messages spell it: 0x and 16 digits. As a JSON number 64 bits
/// would not survive readers that know only doubles.
GRADRECOMP_API std::string signature_text(std::uint64_t signature);

/// The signature spelled so; none if `text` is anything else.
GRADRECOMP_API std::optional<std::uint64_t> signature_of(std::string_view text);

}  // namespace gradrecomp::plan
