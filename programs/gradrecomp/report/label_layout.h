#pragma once

#include <utility>
#include <vector>

#include "report/svg.h"

namespace gradrecomp::program {

/// A label to be placed: what it belongs to and how large it is.
struct LabelWish {
  Point mark;
  Point size;
};

/// A placed label.
struct Label {
  Box box;
  bool led = false;  ///< too far off to be read without a line from its mark to lead_end
  Point lead_end = {};
  double badness = 0;
};

/// Finds places for labels beside their marks, off each other and off what is drawn.
class LabelLayout {
 public:
  explicit LabelLayout(Box bounds) : bounds_(bounds) {}

  /// Nothing is placed on these, and no label on the other side of a line than its mark, as far as
  /// there is room.
  void block(const Box& box) { boxes_.push_back(box); }
  void block(Point from, Point to) { lines_.emplace_back(from, to); }

  /// The labels in the order of `wishes`. Tries several orders to place them in.
  [[nodiscard]] std::vector<Label> place(const std::vector<LabelWish>& wishes) const;

 private:
  Label place_next(const LabelWish& wish);
  [[nodiscard]] double badness(const Label& label, Point mark) const;

  Box bounds_;
  std::vector<Box> boxes_;
  std::vector<std::pair<Point, Point>> lines_;
};

}  // namespace gradrecomp::program
