#include "input/digits.h"

#include <torch/torch.h>

#include "programs/expect_bad_input.h"
#include "programs/temporary_file.h"

namespace gradrecomp::program {
namespace {

std::string line_of(int pixel, int digit) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(digit);
}

void expect_malformed(const std::string& content, const std::string& part) {
  const TemporaryFile file(content);
  expect_bad_input([&] { read_digits(file.path()); }, part);
}

TEST(Digits, ReadsTheWholeSet) {
  const Digits digits = read_digits(GRADRECOMP_DIGITS);
  EXPECT_EQ(digits.pixels.sizes(), (std::vector<std::int64_t>{1797, 8, 8}));
  EXPECT_EQ(digits.labels.size(0), 1797);
  EXPECT_EQ(digits.labels[0].item<int>(), 0);
  EXPECT_EQ(digits.pixels[0][0][2].item<float>(), 5);
  EXPECT_EQ(digits.pixels.min().item<float>(), 0);
  EXPECT_EQ(digits.pixels.max().item<float>(), 16);
  EXPECT_EQ(std::get<0>(torch::_unique(digits.labels)).size(0), 10);
}

TEST(Digits, ReadsPlainTextWithAnyLineEnds) {
  const TemporaryFile file(line_of(1, 7) + "\r\n" + line_of(16, 9));
  EXPECT_TRUE(read_digits(file.path()).labels.equal(torch::tensor({7, 9}, torch::kLong)));
}

TEST(Digits, NameTheLineThatIsMalformed) {
  expect_malformed(line_of(1, 7) + "\n1,2,3\n", "line 2 of ");
  expect_malformed(line_of(17, 0) + "\n", "line 1 of ");
  expect_malformed(line_of(16, 10) + "\n", "64 pixels of 0 to 16 and a digit of 0 to 9");
  expect_malformed(line_of(0, 0) + ",1\n", "line 1 of ");
  expect_malformed(line_of(0, 0) + "\n\n", "line 2 of ");
}

TEST(Digits, RefuseFilesThatAreMissingEmptyOrBroken) {
  expect_bad_input([] { read_digits("no/such/file.csv"); },
                   "--data is no/such/file.csv, but must be readable");
  expect_malformed("", "but must be a file of at least one line");
  expect_malformed("\x1f\x8b\x08\x01 broken", "but must be an intact CSV file");
}

TEST(Digits, ThatDoNotEndAreRefused) {
  expect_bad_input([] { read_digits("/dev/zero"); },
                   "--data is /dev/zero, but must be one that ends within 64 MiB");
}

TEST(Digits, BecomeNormalisedImages) {
  const auto images = digit_images(torch::full({2, 8, 8}, 16.0F), 40);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{2, 3, 40, 40}));
  EXPECT_TRUE(images.allclose(torch::ones_like(images)));
}

}  // namespace
}  // namespace gradrecomp::program
