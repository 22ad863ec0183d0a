#include "input/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace gradrecomp::program {
namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

/// The lowest free number is the one that open() takes.
void fill(int descriptor, int mode) {
  if (!is_open(descriptor)) static_cast<void>(::open("/dev/null", mode));
}

}  // namespace

void check_standard_streams() {
  if (!is_open(STDOUT_FILENO)) {
    throw std::runtime_error(
        "gradrecomp: standard output is closed, but must be open. Leave >&- out, or send it to "
        "/dev/null.");
  }
  fill(STDIN_FILENO, O_RDONLY);
  fill(STDERR_FILENO, O_WRONLY);
}

void finish_standard_output() {
  if (std::fflush(stdout) == 0 && !standard_output_failed()) return;
  throw std::runtime_error(kStandardOutputFailed);
}

bool standard_output_failed() { return std::ferror(stdout) != 0; }

}  // namespace gradrecomp::program
