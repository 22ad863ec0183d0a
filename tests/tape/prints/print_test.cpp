// What the guard sees of contents, and how little it looks at for that.
#include "tape/prints/print.h"

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
  std::int64_t count = 0;
  print.all_blocks_of(Geometry(shown), [&](Print::Blocks blocks) {
    count += blocks.end - blocks.begin;
    return true;
  });
  return count;
}

Print print_of(const at::Tensor& tensor, Look look) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  return {tensor.storage(), {0, bytes}, Geometry(tensor), look};
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

void expect_blocks_tell(Print print, const at::Tensor& tensor, std::mt19937& random) {
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

TEST(PrintTest, BlocksOfAWriteTellOfItAndNoOthersDo) {
  std::mt19937 random(2);
  for (const auto& tensor : tensors()) {
    for (const Look look : kLooks) {
      Print print = print_of(tensor, look);
      expect_blocks_tell(print, tensor, random);
      print.refine(tensor.storage());
      expect_blocks_tell(print, tensor, random);
    }
  }
}

TEST(PrintTest, SampledLookSeesEveryRowAndColumn) {
  for (const Shape& shape : std::vector<Shape>{
           {300, 700}, {2000, 64}, {64, 2000}, {513, 1001}, {10, 4096}, {3, 40000}, {2, 16384}}) {
    auto tensor = torch::zeros(shape);
    Print print = print_of(tensor, Look::sampled);
    ASSERT_FALSE(print.is_whole());
    for (const bool is_fine : {false, true}) {
      if (is_fine) print.refine(tensor.storage());
      for (const std::int64_t dim : {0, 1}) {
        for (std::int64_t i = 0; i < tensor.size(dim); ++i) {
          const at::Tensor shown = tensor.select(dim, i);
          shown.fill_(1);
          EXPECT_FALSE(print.fits(tensor.storage(), Geometry(shown)))
              << tensor.sizes() << " " << dim << " " << i;
          shown.fill_(0);
        }
      }
    }
  }
}

TEST(PrintTest, ItsRowsMayBeThoseOfAPartOfAStorage) {
  const auto storage = torch::zeros({100 + 256 * 1024});
  auto wide = storage.narrow(0, 100, 256 * 1024).view({256, 1024});
  for (auto shown : {wide, wide.t(), wide.narrow(1, 300, 200), wide.narrow(0, 7, 200)}) {
    const Geometry geometry(shown);
    const Print print(storage.storage(), geometry.extent(), geometry, Look::sampled);
    ASSERT_FALSE(print.is_whole());
    EXPECT_TRUE(print.is_laid_out_for(geometry));
    for (const std::int64_t dim : {0, 1}) {
      for (std::int64_t i = 0; i < shown.size(dim); ++i) {
        shown.select(dim, i).fill_(1);
        EXPECT_FALSE(print.fits(storage.storage())) << shown.sizes() << " " << dim << " " << i;
        shown.select(dim, i).fill_(0);
      }
    }
  }
}

// As those of a convolution's weight and of its images, whose innermost dimension is narrow.
TEST(PrintTest, NarrowRowsSideBySideAreOne) {
  for (const Shape& shape : std::vector<Shape>{
           {16, 256, 5, 5}, {64, 64, 3, 3}, {20, 2048, 3, 3}, {4, 100, 7, 7}, {16, 3000, 2}}) {
    const auto tensor = torch::zeros(shape);
    const Print print = print_of(tensor, Look::sampled);
    ASSERT_FALSE(print.is_whole());
    const std::int64_t outer = shape[0] < 16 ? 2 : 1;
    const auto rows = tensor.flatten(outer).flatten(0, outer - 1);
    EXPECT_TRUE(print.is_laid_out_for(Geometry(rows)));
    for (const std::int64_t dim : {0, 1}) {
      for (std::int64_t i = 0; i < rows.size(dim); ++i) {
        rows.select(dim, i).fill_(1);
        EXPECT_FALSE(print.fits(tensor.storage())) << tensor.sizes() << " " << dim << " " << i;
        rows.select(dim, i).fill_(0);
      }
    }
  }
}

// As a loop over the tokens of a batch reads them.
TEST(ContentsTest, OfTensorsThatOverlapIsPrintedForAllOfThem) {
  constexpr int kMostPrints = 6;
  const auto batch = torch::zeros({64, 200, 32});
  Contents contents;
  std::vector<Geometry> tokens;
  int num_prints = 0;
  for (std::int64_t t = 0; t < 200; ++t) {
    const Geometry& token = tokens.emplace_back(batch.select(1, t));
    if (t > 0 && contents.knows(0, token, false, Look::sampled)) continue;
    contents.print_shown(0, batch.storage(), {token, false, false}, Look::sampled);
    ++num_prints;
  }
  EXPECT_LE(num_prints, kMostPrints);
  for (const Geometry& token : tokens) EXPECT_TRUE(contents.knows(0, token, false, Look::sampled));
  EXPECT_FALSE(contents.knows_whole(0)) << "samples will do";
  for (std::int64_t t = 0; t < 200; ++t) {
    batch.select(1, t)[t % 64].fill_(1);
    EXPECT_FALSE(contents.fits(0, batch.storage(), tokens[t])) << t;
    batch.select(1, t)[t % 64].fill_(0);
  }
}

// Else a loop over the tokens of a large batch would look at all of it for each.
TEST(PrintTest, SmallBlocksAreThoseOfViewsWithGaps) {
  for (const Shape& shape :
       std::vector<Shape>{{64, 200, 256}, {8, 100, 1000}, {200, 50, 300}, {4, 7, 5, 512}}) {
    const auto batch = torch::zeros(shape);
    for (const Look look : kLooks) {
      Print print = print_of(batch, look);
      ASSERT_TRUE(print.is_coarse_for(Geometry(batch.select(1, 1))));
      EXPECT_FALSE(print.is_coarse_for(Geometry(batch.select(0, 1))));
      EXPECT_FALSE(print.is_coarse_for(Geometry(batch)));
      print.refine(batch.storage());
      EXPECT_FALSE(print.is_coarse_for(Geometry(batch.select(1, 1))));
      std::int64_t num_looked_at = 0;
      for (std::int64_t t = 0; t < batch.size(1); ++t) {
        num_looked_at += num_blocks(print, batch.select(1, t));
      }
      EXPECT_EQ(num_blocks(print, batch), print.all().end);
      EXPECT_LE(num_looked_at, 3 * print.all().end) << batch.sizes();
    }
  }
}

TEST(ContentsTest, AreLookedAtThroughViewsWithGapsAfterOneLookAtAll) {
  const auto batch = torch::zeros({64, 200, 256});
  const Geometry token(batch.select(1, 7));
  Contents contents;
  contents.print(0, batch.storage(), Geometry(batch), Look::whole);
  EXPECT_TRUE(contents.fits_in_sweep(0, batch.storage(), token, 1));
  batch.data().select(1, 9).fill_(1);
  EXPECT_TRUE(contents.fits_in_sweep(0, batch.storage(), token, 2)) << "another token's";
  EXPECT_TRUE(contents.fits(0, batch.storage(), token));
  EXPECT_FALSE(contents.fits_in_sweep(0, batch.storage(), Geometry(batch.select(1, 9)), 2));
  batch.data().select(1, 7)[63].fill_(1);
  EXPECT_TRUE(contents.fits_in_sweep(0, batch.storage(), token, 2)) << "seen in this sweep";
  EXPECT_FALSE(contents.fits_in_sweep(0, batch.storage(), token, 3));
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

// What nobody has written is not taken to be as it should.
TEST(ContentsTest, AfterAWriteAreThoseOfBeforeButForWhatIsWritten) {
  const auto all = at::zeros({1 << 20}, at::kByte);
  const auto written = all.narrow(0, 300'000, 1000);
  auto* bytes = all.mutable_data_ptr<std::uint8_t>();
  Contents contents;
  contents.print(0, all.storage(), Geometry(all), Look::whole);
  bytes[300'500] = 1;
  bytes[900'000] = 1;
  contents.print_after_write(1, 0, all.storage(), Geometry(written));
  EXPECT_TRUE(contents.knows_whole(1));
  EXPECT_TRUE(contents.fits(1, all.storage(), Geometry(written)));
  EXPECT_FALSE(contents.fits(1, all.storage()));
  bytes[900'000] = 0;
  EXPECT_TRUE(contents.fits(1, all.storage()));
  // Beside that of the whole there may be others.
  contents.print_shown(1, all.storage(), {Geometry(written), false, true}, Look::whole);
  contents.print_after_write(4, 1, all.storage(), Geometry(written));
  bytes[900'000] = 1;
  EXPECT_FALSE(contents.fits(4, all.storage()));
  // A sampled one says too little to go on.
  contents.print(2, all.storage(), Geometry(all), Look::sampled);
  contents.print_after_write(3, 2, all.storage(), Geometry(written));
  EXPECT_TRUE(contents.knows_whole(3));
}

// Of a mapped file only what has been read may be there.
TEST(ContentsTest, OfMemoryWithGapsIsPrintedWhereItIsReadAlone) {
  const auto all = at::zeros({1 << 20}, at::kByte);
  const auto shown = [&](std::int64_t begin) { return Geometry(all.narrow(0, begin, 1000)); };
  Contents contents;
  const Geometry first = shown(5000);
  const Geometry overlapping = shown(5500);
  const Geometry apart = shown(90'000);
  for (const Geometry* geometry : {&first, &overlapping, &apart}) {
    contents.print_shown(0, all.storage(), {*geometry, false, true}, Look::whole);
  }
  auto* bytes = all.mutable_data_ptr<std::uint8_t>();
  for (const std::int64_t beside : {4999, 6500, 50'000, 91'000}) bytes[beside] = 1;
  EXPECT_TRUE(contents.fits(0, all.storage()));
  // Many parts that lie apart are not taken together.
  for (int i = 0; i < 1001; ++i) {
    const Geometry far(all.narrow(0, 100'000 + 200 * i, 50));
    contents.print_shown(0, all.storage(), {far, false, true}, Look::whole);
  }
  bytes[100'100] = 1;
  EXPECT_TRUE(contents.fits(0, all.storage()));
  for (const std::int64_t read : {5000, 5700, 6499, 90'500, 100'210}) {
    bytes[read] = 1;
    EXPECT_FALSE(contents.fits(0, all.storage())) << read;
    bytes[read] = 0;
  }
}

TEST(ContentsTest, OfTensorsWithRowsOfTheirOwnAreKnownByThose) {
  const auto storage = torch::zeros({512 * 1024}).storage();
  const auto shown = [&](at::IntArrayRef sizes, std::int64_t offset) {
    return Geometry(torch::empty({0}).set_(storage, offset, sizes));
  };
  Contents contents;
  const Geometry flat = shown({4096}, 0);
  contents.print_shown(0, storage, {flat, false, false}, Look::sampled);
  EXPECT_TRUE(contents.knows(0, flat, false, Look::sampled));
  EXPECT_FALSE(contents.knows(0, flat, true, Look::sampled)) << "it is of a part";
  const Geometry rows = shown({256, 1024}, 4096);
  EXPECT_FALSE(contents.knows(0, rows, false, Look::sampled));
  contents.print_shown(0, storage, {rows, false, false}, Look::sampled);
  EXPECT_TRUE(contents.knows(0, rows, false, Look::sampled));
  EXPECT_FALSE(contents.knows(0, rows, false, Look::whole)) << "it is of samples";
  EXPECT_FALSE(contents.knows(0, rows, true, Look::sampled)) << "it is of a part";
  EXPECT_FALSE(contents.knows_whole(0));
  // One that is shown in ever other ways is known to the bit after a few.
  for (std::int64_t width = 2000; width < 2010; ++width) {
    const Geometry other = shown({200, width}, 0);
    if (!contents.knows(0, other, false, Look::sampled))
      contents.print_shown(0, storage, {other, false, false}, Look::sampled);
    EXPECT_TRUE(contents.knows(0, other, false, Look::sampled));
  }
  EXPECT_TRUE(contents.knows_whole(0));
}

}  // namespace
}  // namespace gradrecomp::tape
