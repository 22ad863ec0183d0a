// version.h says its numbers several times: for programs, in text, and in the name of a namespace.
#include "gradrecomp/version.h"

#include <gtest/gtest.h>

#include <string>

#define GRADRECOMP_TEXT_OF(x) #x
#define GRADRECOMP_TEXT(x) GRADRECOMP_TEXT_OF(x)

namespace gradrecomp {
namespace {

const std::string kMajor = GRADRECOMP_TEXT(GRADRECOMP_VERSION_MAJOR);
const std::string kMinor = GRADRECOMP_TEXT(GRADRECOMP_VERSION_MINOR);
const std::string kPatch = GRADRECOMP_TEXT(GRADRECOMP_VERSION_PATCH);

TEST(Version, TextIsThatOfItsNumbers) {
  EXPECT_EQ(GRADRECOMP_VERSION, kMajor + "." + kMinor + "." + kPatch);
}

TEST(Version, NamespaceIsThatOfTheMinorVersion) {
  EXPECT_EQ(GRADRECOMP_TEXT(GRADRECOMP_NAMESPACE), "v" + kMajor + "_" + kMinor);
}

}  // namespace
}  // namespace gradrecomp
