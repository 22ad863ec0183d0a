#include "input/validators.h"

#include <gtest/gtest.h>

#include "format.h"

namespace gradrecomp::program {
namespace {

/// What `validator` makes of `text`, which it must take.
std::string taken(const CLI::Validator& validator, std::string text) {
  EXPECT_EQ(validator(text), "");
  return text;
}

/// What `validator` says against `text`.
std::string refusal(const CLI::Validator& validator, std::string text) { return validator(text); }

TEST(Validators, ReadBytesWithUnits) {
  EXPECT_EQ(taken(byte_size(), "4096"), "4096");
  EXPECT_EQ(taken(byte_size(), "512MiB"), std::to_string(512 << 20));
  EXPECT_EQ(taken(byte_size(), "2 GiB"), std::to_string(std::int64_t{2} << 30));
  EXPECT_EQ(taken(byte_size(), "1.5GiB"), std::to_string(std::int64_t{3} << 29));
  EXPECT_EQ(taken(byte_size(), "5MB"), "5000000");
}

TEST(Validators, RefuseWhatIsNoNumberOfBytes) {
  for (const std::string text : {"0", "-1", "-1KiB", "5XB", "nan", "1e9", "99999999TiB"}) {
    EXPECT_EQ(refusal(byte_size(), text),
              "is " + text +
                  ", but must be a positive number of bytes up to 8PiB, with a unit or none, "
                  "such as 512MiB or 1.5GiB.");
  }
}

TEST(Validators, ReadWholeNumbers) {
  EXPECT_EQ(taken(whole_number(1, 4), "4"), "4");
  EXPECT_EQ(taken(whole_number(0, 4), "0"), "0");
  for (const std::string text :
       {"1.5", "0", "5", "x", "-1", "99999999999999999999", "04", "0x1", "+1", " 1", "0b1"}) {
    EXPECT_EQ(refusal(whole_number(1, 4), text),
              "is " + text + ", but must be a whole number from 1 to 4.");
  }
}

TEST(Validators, ReadFiniteNumbers) {
  EXPECT_EQ(taken(nonnegative(), "0"), "0");
  EXPECT_EQ(taken(positive(), "0.25"), "0.25");
  for (const std::string text : {"nan", "inf", "-1", "x", "1e999"}) {
    EXPECT_EQ(refusal(nonnegative(), text),
              "is " + text + ", but must be a finite number of at least 0, such as 0.05.");
  }
  EXPECT_EQ(taken(nonnegative(10000), "10000"), "10000");
  EXPECT_NE(refusal(nonnegative(10000), "1e39").find("at least 0 and at most 10000, such as"),
            std::string::npos);
  EXPECT_NE(refusal(positive(), "0").find("above 0"), std::string::npos);
}

TEST(Validators, ReadNames) {
  const auto names = one_of({"on", "off"});
  EXPECT_EQ(taken(names, "off"), "off");
  EXPECT_EQ(refusal(names, "On"), "is On, but must be one of on, off.");
}

// As an option is whose value is a variable of the shell that is not set.
TEST(Validators, RefuseWhatIsEmpty) {
  EXPECT_EQ(taken(file_name(), "plan.json"), "plan.json");
  EXPECT_EQ(refusal(file_name(), ""), "is empty, but must be the name of a file.");
  for (const auto& validator : {byte_size(), whole_number(1, 4), nonnegative(), one_of({"on"})}) {
    EXPECT_TRUE(refusal(validator, "").starts_with("is empty, but must be "));
  }
}

TEST(Validators, ReadFixedPolicies) {
  EXPECT_EQ(taken(fixed_policy(), "every_2"), "every_2");
  for (const std::string text : {"every-0", "max-overhead", "plain", "5%"}) {
    EXPECT_EQ(refusal(fixed_policy(), text).find("is " + text + ", but must be a fixed policy"),
              0U);
  }
}

TEST(Format, SpellsMebibytes) { EXPECT_EQ(mebibytes(3 << 19), "1.5 MiB"); }

}  // namespace
}  // namespace gradrecomp::program
