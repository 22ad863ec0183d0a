#include "report/equality.h"

#include <gtest/gtest.h>

namespace gradrecomp::program {
namespace {

TEST(Equality, AnArmIsBlamedOnlyWherePlainRepeatsItself) {
  EXPECT_EQ(equality(true, true), Equality::yes);
  EXPECT_EQ(equality(false, true), Equality::no);
  EXPECT_EQ(equality(false, false), Equality::plain_differs);
}

TEST(Equality, AnArmThatEqualsTheFirstPlainStepDoesSoWhateverOthersDo) {
  EXPECT_EQ(equality(true, false), Equality::yes);
}

}  // namespace
}  // namespace gradrecomp::program
