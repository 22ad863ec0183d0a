#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace gradrecomp::test {

/// `call` throws std::invalid_argument and its message contains `part`.
template <class Call>
void expect_invalid(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected an error with: " << part;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace gradrecomp::test
