#include "output_file.h"

#include "programs/expect_bad_input.h"
#include "support/temporary_folder.h"

namespace gradrecomp::program {
namespace {

TEST(OutputFile, IsNotTouchedByTheCheck) {
  const testing::TemporaryFolder folder;
  check_writable("--out", (folder / "plan.json").string());
  check_writable("--out", "");
  EXPECT_EQ(folder.num_files(), 0);
  write_output("--out", (folder / "plan.json").string(), "{}");
  EXPECT_EQ(std::filesystem::file_size(folder / "plan.json"), 2U);
}

TEST(OutputFile, IsRefusedWhereNoneCanBe) {
  const testing::TemporaryFolder folder;
  expect_bad_input([&] { check_writable("--svg", (folder / "no/x.svg").string()); },
                   "--svg: file is ");
  expect_bad_input([&] { check_writable("--svg", (folder / "").string()); }, "must be writable");
}

}  // namespace
}  // namespace gradrecomp::program
