#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gradrecomp::fuzzing {

/// Ends the program as a crash, which libFuzzer reports with its input, unless `holds`.
inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// An error a user can do something with: it names what is wrong and is a sentence.
inline void expect_message(std::string_view message) {
  expect(message.find(", but must be ") != std::string_view::npos,
         "an error without a requirement");
}

}  // namespace gradrecomp::fuzzing
