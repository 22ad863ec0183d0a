#pragma once

namespace gradrecomp::program {

/// Checks that there is a standard output, and puts /dev/null where input or errors are closed: a
/// file that the program opens must not get their numbers.
/// Throws:  std::runtime_error if standard output is closed.
void check_standard_streams();

/// Writes out what was printed.
/// Throws:  std::runtime_error if not all of it is taken.
void finish_standard_output();

/// Whether something that was printed was not taken, and what to say of it.
bool standard_output_failed();
inline constexpr const char* kStandardOutputFailed =
    "gradrecomp: standard output is full or broken, but must take all that is printed. Make room, "
    "or send it elsewhere.";

}  // namespace gradrecomp::program
