#include "report/label_layout.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gradrecomp::program {
namespace {

constexpr double kNearest = 11;
constexpr double kFarthest = 300;

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/// The box of this size that lies `distance` from `mark` at an angle, anticlockwise from the right.
Box beside(Point mark, Point size, double distance, double angle) {
  const double right = std::cos(angle);
  const double down = -std::sin(angle);
  const double x = mark.x + distance * right + size.x / 2 * (right - 1);
  const double y = mark.y + distance * down + size.y / 2 * (down - 1);
  return {x, y, x + size.x, y + size.y};
}

}  // namespace

void LabelLayout::block(Point from, Point to) {
  constexpr double kMargin = 2.5;
  taken_.push_back({std::min(from.x, to.x) - kMargin, std::min(from.y, to.y) - kMargin,
                    std::max(from.x, to.x) + kMargin, std::max(from.y, to.y) + kMargin});
}

bool LabelLayout::is_free(const Box& box) const {
  return box.left >= bounds_.left && box.right <= bounds_.right && box.top >= bounds_.top &&
         box.bottom <= bounds_.bottom &&
         std::ranges::none_of(taken_, [&](const Box& taken) { return overlap(box, taken); });
}

Box LabelLayout::free_place(Point mark, Point size) const {
  constexpr int kNumDirections = 24;
  for (double distance = kNearest; distance < kFarthest; distance += 5) {
    for (int i = 0; i < kNumDirections; ++i) {
      const auto box = beside(mark, size, distance, 2 * std::numbers::pi * i / kNumDirections);
      if (is_free(box)) return box;
    }
  }
  return beside(mark, size, kNearest, 0);
}

Label LabelLayout::place(Point mark, Point size) {
  constexpr double kFarthestUnled = 16;
  const auto box = free_place(mark, size);
  taken_.push_back(box);
  const Point end{std::clamp(mark.x, box.left, box.right), std::clamp(mark.y, box.top, box.bottom)};
  return {box, std::hypot(end.x - mark.x, end.y - mark.y) > kFarthestUnled, end};
}

}  // namespace gradrecomp::program
