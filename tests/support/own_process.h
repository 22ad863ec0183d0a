#pragma once

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace gradrecomp::test {

/// Death tests of this suite start the program anew instead of forking it.
class OwnProcess : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// Ends the process with status 0, or with 1 and the message of what was thrown.
template <typename Body>
[[noreturn]] void exit_after(Body body) {
  try {
    body();
  } catch (const c10::Error& error) {
    std::cerr << error.msg() << std::endl;
    std::_Exit(1);
  }
  std::_Exit(0);
}

}  // namespace gradrecomp::test
