#include "tape/lent_parts.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tape/geometry/geometries.h"

namespace gradrecomp::tape {
namespace {

class LentPartsTest : public ::testing::Test {
 protected:
  /// The geometry of so many rows of a matrix from `begin` on.
  const Geometry* rows(std::int64_t begin, std::int64_t count) {
    return geometries_.of(matrix_.narrow(0, begin, count));
  }
  const Geometry* column(std::int64_t i) { return geometries_.of(matrix_.select(1, i)); }

  LentParts parts_;

 private:
  at::Tensor matrix_ = torch::zeros({16, 4});
  Geometries geometries_;
};

TEST_F(LentPartsTest, AreShownAsLongAsAHandleCoversThem) {
  parts_.add_handle(rows(0, 1));
  parts_.add_handle(rows(2, 8));
  parts_.add_handle(rows(2, 8));
  EXPECT_TRUE(parts_.shows(*rows(0, 1)));
  EXPECT_FALSE(parts_.shows(*rows(1, 1)));
  EXPECT_TRUE(parts_.shows(*rows(4, 6)));
  EXPECT_FALSE(parts_.shows(*rows(4, 7)));

  EXPECT_FALSE(parts_.remove_handle(rows(2, 8)));
  EXPECT_TRUE(parts_.shows(*rows(4, 6)));
  EXPECT_TRUE(parts_.remove_handle(rows(2, 8)));
  EXPECT_FALSE(parts_.shows(*rows(4, 6)));
  EXPECT_TRUE(parts_.shows(*rows(0, 1)));
}

TEST_F(LentPartsTest, OfHandlesWithGapsShowTheSameAlone) {
  parts_.add_handle(column(1));
  EXPECT_TRUE(parts_.shows(*column(1)));
  EXPECT_FALSE(parts_.shows(*column(2)));
  EXPECT_FALSE(parts_.shows(*rows(1, 1)));
  EXPECT_TRUE(parts_.remove_handle(column(1)));
  EXPECT_FALSE(parts_.shows(*column(1)));
}

TEST_F(LentPartsTest, KnowWhoReadsWithinAnExtent) {
  parts_.add_reader(rows(8, 1)->extent(), 0);
  parts_.add_reader(rows(2, 4)->extent(), 1);
  parts_.add_reader(rows(3, 1)->extent(), 2);
  EXPECT_EQ(parts_.readers_in(rows(3, 5)->extent()), (std::vector<OpId>{2}));
  EXPECT_EQ(parts_.readers_in(rows(2, 2)->extent()), (std::vector<OpId>{1, 2}));
  EXPECT_EQ(parts_.readers_in(rows(0, 16)->extent()), (std::vector<OpId>{1, 2, 0}));
  EXPECT_TRUE(parts_.readers_in(rows(10, 2)->extent()).empty());
}

}  // namespace
}  // namespace gradrecomp::tape
