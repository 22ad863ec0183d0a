#include "byte_size.h"

#include "programs/expect_bad_input.h"

namespace gradrecomp::program {
namespace {

TEST(ByteSize, ReadsUnits) {
  EXPECT_EQ(byte_size("--max-peak", "4096"), 4096);
  EXPECT_EQ(byte_size("--max-peak", "512MiB"), std::int64_t{512} << 20);
  EXPECT_EQ(byte_size("--max-peak", "2GiB"), std::int64_t{2} << 30);
  EXPECT_EQ(byte_size("--max-peak", "1.5KiB"), 1536);
}

TEST(ByteSize, RefusesAnythingElse) {
  for (const std::string text :
       {"", "MiB", "0", "-1", "5MB", "5 MiB", "nan", "1e9", "99999999TiB"}) {
    expect_bad_input([&] { byte_size("--max-peak", text); },
                     "--max-peak: value is " + text + ", but must be a positive number of bytes");
  }
}

TEST(ByteSize, SpellsMebibytes) { EXPECT_EQ(mebibytes(3 << 19), "1.5 MiB"); }

}  // namespace
}  // namespace gradrecomp::program
