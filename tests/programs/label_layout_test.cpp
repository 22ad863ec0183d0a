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
  const auto label = LabelLayout(kBounds).place({{{100, 100}, {60, 14}}}).front();
  EXPECT_GT(label.box.left, 100) << "the right is tried first";
  EXPECT_LT(label.box.left, 120);
  EXPECT_FALSE(label.led);
}

TEST(LabelLayout, KeepsLabelsApartAndInside) {
  std::mt19937 random(1);
  std::vector<LabelWish> wishes;
  for (int i = 0; i < 12; ++i) {
    const auto x = static_cast<double>(600 + random() % 90);
    wishes.push_back({{x, static_cast<double>(200 + random() % 60)}, {70, 14}});
  }
  const auto labels = LabelLayout(kBounds).place(wishes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Box& box = labels[i].box;
    EXPECT_TRUE(box.left >= 0 && box.right <= 700 && box.top >= 0 && box.bottom <= 360);
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(box, labels[j].box));
  }
}

TEST(LabelLayout, KeepsLabelsOffALineThroughTheirMark) {
  LabelLayout layout(kBounds);
  layout.block({0, 100}, {700, 100});
  for (const auto& [box, led, lead_end, badness] :
       layout.place({{{100, 100}, {60, 14}}, {{110, 100}, {90, 14}}, {{130, 100}, {70, 14}}})) {
    EXPECT_TRUE(box.bottom <= 100 || box.top >= 100) << box.top;
  }
}

TEST(LabelLayout, KeepsLabelsOffLinesAndBoxes) {
  LabelLayout layout(kBounds);
  layout.block({0, 100}, {700, 100});
  layout.block({111, 80, 400, 99});
  const Box box = layout.place({{{100, 88}, {60, 14}}}).front().box;
  EXPECT_LT(box.bottom, 100) << "the line is between them";
  EXPECT_FALSE(overlap(box, {111, 80, 400, 99}));
}

}  // namespace
}  // namespace gradrecomp::program
