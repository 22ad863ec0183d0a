#pragma once

#include <string>
#include <string_view>

namespace gradrecomp::program {

/// Checks that a file can be written, before anything takes time; "" is no file and always can.
/// Throws:  BadInput naming `option`.
void check_writable(std::string_view option, const std::string& path);

/// Writes `text` to a file that check_writable() let pass.
/// Throws:  BadInput naming `option`, if the disk does not take it.
void write_output(std::string_view option, const std::string& path, std::string_view text);

}  // namespace gradrecomp::program
