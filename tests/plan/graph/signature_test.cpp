#include "gradrecomp/plan/signature.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace gradrecomp::plan {
namespace {

TEST(Signature, HasOneSpelling) {
  EXPECT_EQ(signature_text(0), "0x0000000000000000");
  EXPECT_EQ(signature_text(0xfedcba9876543210), "0xfedcba9876543210");
  for (const std::uint64_t signature :
       {std::uint64_t{0}, std::uint64_t{0x1f}, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_EQ(signature_of(signature_text(signature)), signature);
  }
}

TEST(Signature, IsNoOtherText) {
  for (const auto* text : {"", "0x", "15", "0xf", "fedcba9876543210", "0xfedcba987654321g",
                           "0xfedcba98765432100", "0x-edcba9876543210"}) {
    EXPECT_EQ(signature_of(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gradrecomp::plan
