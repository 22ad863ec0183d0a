#include "report/label_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace gradrecomp::program {
namespace {

constexpr std::array kDistances{11.0, 16.0, 24.0, 34.0, 46.0, 60.0, 76.0, 94.0, 114.0, 140.0};
constexpr double kFarthestUnled = 16;
constexpr int kNumDirections = 24;
constexpr double kMarkRadius = 9;

// What makes a place bad, beside a pixel's distance.
constexpr double kOutside = 10000;
constexpr double kOnBox = 1000;
constexpr double kOnLine = 400;
constexpr double kLeadOnBox = 300;
constexpr double kLeadOnLine = 60;

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

bool inside(const Box& inner, const Box& outer) {
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top &&
         inner.bottom <= outer.bottom;
}

/// The part of [0, 1] in which from + t * step lies between low and high.
std::pair<double, double> span_between(double from, double step, double low, double high) {
  if (step == 0) return from > low && from < high ? std::pair{0.0, 1.0} : std::pair{1.0, 0.0};
  const double at_low = (low - from) / step;
  const double at_high = (high - from) / step;
  return {std::max(std::min(at_low, at_high), 0.0), std::min(std::max(at_low, at_high), 1.0)};
}

bool crosses(Point from, Point to, const Box& box) {
  const auto x = span_between(from.x, to.x - from.x, box.left, box.right);
  const auto y = span_between(from.y, to.y - from.y, box.top, box.bottom);
  return std::max(x.first, y.first) < std::min(x.second, y.second);
}

/// The box of this size that lies `distance` from the mark in direction (x, y).
Box beside(const LabelWish& wish, Point direction, double distance) {
  const auto& [mark, size] = wish;
  const double x = mark.x + distance * direction.x + size.x / 2 * (direction.x - 1);
  const double y = mark.y + distance * direction.y + size.y / 2 * (direction.y - 1);
  return {x, y, x + size.x, y + size.y};
}

Point nearest(const Box& box, Point point) {
  return {std::clamp(point.x, box.left, box.right), std::clamp(point.y, box.top, box.bottom)};
}

/// Where a line from a mark to `end` leaves the mark.
Point edge_of_mark(Point mark, Point end) {
  const double length = std::hypot(end.x - mark.x, end.y - mark.y);
  const double part = length > kMarkRadius ? kMarkRadius / length : 1;
  return {mark.x + part * (end.x - mark.x), mark.y + part * (end.y - mark.y)};
}

/// The box around a line parallel to an axis, with a margin.
Box around(Point a, Point b) {
  constexpr double kMargin = 2.5;
  return {std::min(a.x, b.x) - kMargin, std::min(a.y, b.y) - kMargin, std::max(a.x, b.x) + kMargin,
          std::max(a.y, b.y) + kMargin};
}

}  // namespace

double LabelLayout::badness(const Label& label, Point mark) const {
  const Point start = edge_of_mark(mark, label.lead_end);
  double sum = inside(label.box, bounds_) ? 0 : kOutside;
  for (const Box& box : boxes_) {
    sum += overlap(label.box, box) ? kOnBox : 0;
    sum += label.led && crosses(start, label.lead_end, box) ? kLeadOnBox : 0;
  }
  for (const auto& [from, to] : lines_) {
    sum += crosses(from, to, label.box) ? kOnLine : 0;
    sum += crosses(start, label.lead_end, around(from, to)) ? kLeadOnLine : 0;
  }
  return sum;
}

Label LabelLayout::place_next(const LabelWish& wish) {
  Label best{.box = {}, .badness = std::numeric_limits<double>::infinity()};
  for (const double distance : kDistances) {
    if (distance >= best.badness) break;
    for (int i = 0; i < kNumDirections; ++i) {
      const double angle = 2 * std::numbers::pi * i / kNumDirections;
      Label label{.box = beside(wish, {std::cos(angle), -std::sin(angle)}, distance),
                  .led = distance > kFarthestUnled};
      label.lead_end = nearest(label.box, wish.mark);
      label.badness = distance + badness(label, wish.mark);
      if (label.badness < best.badness) best = label;
    }
  }
  block(best.box);
  if (best.led) block(wish.mark, best.lead_end);
  return best;
}

std::vector<Label> LabelLayout::place(const std::vector<LabelWish>& wishes) const {
  const auto num = wishes.size();
  std::vector<Label> best(num);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t order = 0; order < 2 * num; ++order) {
    LabelLayout trial = *this;
    std::vector<Label> labels(num);
    double sum = 0;
    for (std::size_t i = 0; i < num; ++i) {
      const auto forward = (i + order / 2) % num;
      const auto next = order % 2 == 0 ? forward : num - 1 - forward;
      labels[next] = trial.place_next(wishes[next]);
      sum += labels[next].badness;
    }
    if (sum < least) best = std::move(labels);
    least = std::min(least, sum);
  }
  return best;
}

}  // namespace gradrecomp::program
