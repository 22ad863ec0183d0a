#include "report/label_layout.h"

#include <gtest/gtest.h>

#include <random>

namespace gradrecomp::program {
namespace {

constexpr Box kBounds{0, 0, 700, 360};

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

TEST(LabelLayout, PutsALabelBesideItsMark) {
  const auto label = LabelLayout(kBounds).place({100, 100}, {60, 14});
  EXPECT_GT(label.box.left, 100) << "the right is tried first";
  EXPECT_LT(label.box.left, 120);
  EXPECT_FALSE(label.led);
}

TEST(LabelLayout, KeepsLabelsApartAndInside) {
  std::mt19937 random(1);
  LabelLayout layout(kBounds);
  std::vector<Box> boxes;
  for (int i = 0; i < 12; ++i) {
    const auto x = static_cast<double>(600 + random() % 90);
    const auto y = static_cast<double>(200 + random() % 60);
    const auto box = layout.place({x, y}, {70, 14}).box;
    EXPECT_TRUE(box.left >= 0 && box.right <= 700 && box.top >= 0 && box.bottom <= 360);
    for (const Box& other : boxes) EXPECT_FALSE(overlap(box, other));
    boxes.push_back(box);
  }
}

TEST(LabelLayout, LeadsToALabelThatIsFarOff) {
  LabelLayout layout(kBounds);
  layout.block({60, 60, 240, 140});
  const auto label = layout.place({150, 100}, {60, 14});
  EXPECT_TRUE(label.led);
  EXPECT_FALSE(overlap(label.box, {60, 60, 240, 140}));
}

TEST(LabelLayout, KeepsLabelsOffALineThroughTheirMark) {
  LabelLayout layout(kBounds);
  layout.block({0, 100}, {700, 100});
  for (const Point mark : {Point{100, 100}, Point{110, 100}, Point{130, 100}}) {
    const auto box = layout.place(mark, {70, 14}).box;
    EXPECT_TRUE(box.bottom <= 100 || box.top >= 100) << box.top;
  }
}

TEST(LabelLayout, KeepsLabelsOffLinesAndBoxes) {
  LabelLayout layout(kBounds);
  layout.block({0, 100}, {700, 100});
  layout.block({111, 80, 400, 99});
  const Box box = layout.place({100, 88}, {60, 14}).box;
  EXPECT_LT(box.bottom, 100) << "the line is between them";
  EXPECT_FALSE(overlap(box, {111, 80, 400, 99}));
}

}  // namespace
}  // namespace gradrecomp::program
