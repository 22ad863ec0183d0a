#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradrecomp::program {

/// Reads the value of option `name`: bytes as a number, with or without KiB, MiB, GiB or TiB.
/// Throws:  BadInput unless it is such a text and at least 1 byte.
std::int64_t byte_size(std::string_view name, std::string_view text);

/// Bytes as "691.5 MiB".
std::string mebibytes(std::int64_t bytes);

}  // namespace gradrecomp::program
