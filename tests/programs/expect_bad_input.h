#pragma once

#include <gtest/gtest.h>

#include <string>

#include "bad_input.h"

namespace gradrecomp::program {

/// `call` throws BadInput and its message contains `part`.
template <class Call>
void expect_bad_input(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected an error with: " << part;
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace gradrecomp::program
