// What the guard sees of contents, and how little it looks at for that.
#include "tape/print.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <random>

#include "tape/contents.h"

namespace gradrecomp::tape {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr Look kLooks[] = {Look::sampled, Look::whole};

std::int64_t num_blocks(const Print& print, const at::Tensor& shown) {
  const Print::Blocks blocks = print.blocks_of(Geometry(shown).extent());
  return blocks.end - blocks.begin;
}

Print print_of(const at::Tensor& tensor, Look look) {
  return {tensor.storage(), Geometry(tensor), look};
}

char& byte_at(const at::Tensor& tensor, std::int64_t position) {
  return static_cast<char*>(tensor.storage().mutable_data())[position];
}

/// Of many shapes and types, above and below where samples begin.
std::vector<at::Tensor> tensors() {
  std::vector<at::Tensor> all;
  for (const auto type : {torch::kByte, torch::kHalf, torch::kFloat, torch::kDouble}) {
    for (const Shape& shape : std::vector<Shape>{
             {}, {5}, {3, 7}, {300, 700}, {90000}, {40000, 9}, {3, 100001}, {17, 5, 999}}) {
      all.push_back(torch::randint(100, shape, torch::TensorOptions().dtype(type)));
    }
  }
  all.push_back(torch::randn({900, 333}).t());
  return all;
}

TEST(PrintTest, WholeLookSeesEveryBit) {
  std::mt19937 random(1);
  for (const auto& tensor : tensors()) {
    const Print print = print_of(tensor, Look::whole);
    for (int i = 0; i < 200; ++i) {
      char& byte = byte_at(tensor, static_cast<std::int64_t>(random() % tensor.nbytes()));
      const auto bit = static_cast<char>(1 << random() % 8);
      byte = static_cast<char>(byte ^ bit);
      EXPECT_FALSE(print.fits(tensor.storage())) << tensor.sizes();
      byte = static_cast<char>(byte ^ bit);
    }
    EXPECT_TRUE(print.fits(tensor.storage()));
  }
}

TEST(PrintTest, BlocksOfAWriteTellOfItAndNoOthersDo) {
  std::mt19937 random(2);
  for (const auto& tensor : tensors()) {
    for (const Look look : kLooks) {
      const Print print = print_of(tensor, look);
      for (int i = 0; i < 200; ++i) {
        const auto position = static_cast<std::int64_t>(random() % tensor.nbytes());
        byte_at(tensor, position) ^= 1;
        const Print::Blocks blocks = print.blocks_of({position, position + 1});
        ASSERT_EQ(blocks.end - blocks.begin, 1);
        EXPECT_EQ(print.fits(tensor.storage(), blocks), print.fits(tensor.storage()));
        EXPECT_TRUE(print.fits(tensor.storage(), {0, blocks.begin}));
        EXPECT_TRUE(print.fits(tensor.storage(), {blocks.end, print.all().end}));
        byte_at(tensor, position) ^= 1;
      }
    }
  }
}

TEST(PrintTest, SampledLookSeesEveryRowAndColumn) {
  for (const Shape& shape : std::vector<Shape>{{300, 700}, {2000, 64}, {64, 2000}, {513, 1001}}) {
    auto tensor = torch::zeros(shape);
    const Print print = print_of(tensor, Look::sampled);
    ASSERT_FALSE(print.is_whole());
    for (const std::int64_t dim : {0, 1}) {
      for (std::int64_t i = 0; i < tensor.size(dim); ++i) {
        tensor.select(dim, i).fill_(1);
        EXPECT_FALSE(print.fits(tensor.storage())) << tensor.sizes() << " " << dim << " " << i;
        tensor.select(dim, i).fill_(0);
      }
    }
  }
}

// Else a loop over the rows of a large tensor would look at all of it for each.
TEST(PrintTest, RowsAreLookedAtInFewBlocks) {
  const auto tensor = torch::zeros({4096, 256});
  for (const Look look : kLooks) {
    const Print print = print_of(tensor, look);
    std::int64_t num_looked_at = 0;
    for (std::int64_t row = 0; row < tensor.size(0); ++row)
      num_looked_at += num_blocks(print, tensor[row]);
    EXPECT_GE(print.all().end, 60);
    EXPECT_LE(num_looked_at, 2 * tensor.size(0));
    EXPECT_EQ(num_blocks(print, tensor), print.all().end);
    EXPECT_EQ(num_blocks(print, tensor.narrow(0, 5, 0)), 0);
  }
}

TEST(ContentsTest, BlocksThatFitAreLookedAtOnceInASweepAndAgainInTheNext) {
  const auto tensor = torch::zeros({4096, 256});
  Contents contents;
  contents.print(0, tensor.storage(), Geometry(tensor), Look::whole);
  const auto fits = [&](std::int64_t row, std::int32_t sweep) {
    return contents.fits_in_sweep(0, tensor.storage(), Geometry(tensor[row]), sweep);
  };
  EXPECT_TRUE(fits(0, 1));
  tensor[0].data().fill_(1);
  tensor[4000].data().fill_(1);
  EXPECT_TRUE(fits(0, 1));
  EXPECT_TRUE(fits(2000, 1));
  EXPECT_FALSE(fits(4000, 1));
  EXPECT_FALSE(fits(0, 2));
  EXPECT_FALSE(contents.fits_in_sweep(0, tensor.storage(), 2));
}

}  // namespace
}  // namespace gradrecomp::tape
