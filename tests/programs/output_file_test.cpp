#include "input/output_file.h"

#include <filesystem>
#include <fstream>

#include "programs/expect_bad_input.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gradrecomp::program {
namespace {

TEST(OutputFile, IsNotTouchedByTheCheck) {
  const test::TemporaryFolder folder;
  const NamedFile file{"--out", (folder / "plan.json").string()};
  check_outputs({file, {"--svg", ""}});
  EXPECT_EQ(folder.num_files(), 0);
  write_output(file, "{}");
  write_output({"--svg", ""}, "nowhere");
  EXPECT_EQ(std::filesystem::file_size(file.path), 2U);
}

TEST(OutputFile, IsRefusedWhereNoneCanBe) {
  const test::TemporaryFolder folder;
  for (const auto* path : {"no/x.svg", ""}) {
    test::expect_invalid(
        [&] {
          check_outputs({{"--svg", (folder / path).string()}});
        },
        "--svg: file is " + (folder / path).string() + ", but must be writable");
  }
}

TEST(OutputFile, IsNoOtherOutputAndNoInput) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "x.json").string();
  const auto same = (folder / "./x.json").string();
  expect_bad_input(
      [&] {
        check_outputs({{"--out", path}, {"--front", same}});
      },
      "--front is " + same + ", but must be another file than that of --out");
  expect_bad_input(
      [&] {
        check_outputs({{"--out", path}}, {{"--graph", same}});
      },
      "--out is " + path + ", but must be another file than that of --graph");
  check_outputs({{"--out", "/dev/null"}, {"--front", "/dev/null"}});
}

}  // namespace
}  // namespace gradrecomp::program
