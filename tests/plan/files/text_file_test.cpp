#include "plan/files/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

TEST(TextFile, IsReadToItsLastByte) {
  const test::TemporaryFolder folder;
  const std::string text(3'000'000, 'x');
  std::ofstream(folder / "text") << text;
  EXPECT_EQ(read_file("the test", folder / "text"), text);
  EXPECT_EQ(read_file("the test", "/dev/null"), "");
}

TEST(TextFile, ThatDoesNotEndIsRefused) {
  expect_invalid([] { read_file("the test", "/dev/zero", 2 << 20); },
                 "the test: file is /dev/zero, but must be one that ends within 2 MiB");
}

TEST(TextFile, ThatIsNoneIsRefused) {
  const test::TemporaryFolder folder;
  expect_invalid([&] { read_file("the test", folder / "none"); },
                 "none, but must be readable. Pass a file that exists");
  expect_invalid([&] { read_file("the test", folder / ""); }, "but must be no folder");
  expect_invalid([&] { read_file("the test", ""); }, "but must be readable");
  // Opening it ends with an error for root, too.
  std::filesystem::create_symlink("round", folder / "round");
  expect_invalid([&] { read_file("the test", folder / "round"); }, "Pass a file that exists");
}

}  // namespace
}  // namespace gradrecomp::plan
