#pragma once

#include <string_view>

namespace gradrecomp::program {

/// Shows what runs now in one line on a terminal's standard error; silent in a pipe or a file.
void show_progress(std::string_view line);

/// Removes that line, for what is printed next.
void clear_progress();

}  // namespace gradrecomp::program
