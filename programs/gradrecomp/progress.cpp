#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace gradrecomp::program {

Progress::Progress() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view line) {
  if (on_terminal_) fmt::print(stderr, "\r\033[K{}", line);
}

void Progress::clear() { show(""); }

}  // namespace gradrecomp::program
