#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace gradrecomp::program {

void show_progress(std::string_view line) {
  static const bool on_terminal = isatty(STDERR_FILENO) == 1;
  if (on_terminal) fmt::print(stderr, "\r\033[K{}", line);
}

void clear_progress() { show_progress(""); }

}  // namespace gradrecomp::program
