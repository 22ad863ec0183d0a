#pragma once

#include <vector>

#include "report/svg.h"

namespace gradrecomp::program {

/// A placed label.
struct Label {
  Box box;
  bool led = false;  ///< too far off to be read without a line from its mark to lead_end
  Point lead_end = {};
};

/// Finds places for labels beside their marks, off each other and off what is drawn.
class LabelLayout {
 public:
  explicit LabelLayout(Box bounds) : bounds_(bounds) {}

  /// Nothing is placed on these. A line is parallel to an axis, or stands for the box around it.
  void block(const Box& box) { taken_.push_back(box); }
  void block(Point from, Point to);

  /// The nearest free place beside `mark` for a label of this size, which is then taken.
  Label place(Point mark, Point size);

 private:
  [[nodiscard]] Box free_place(Point mark, Point size) const;
  [[nodiscard]] bool is_free(const Box& box) const;

  Box bounds_;
  std::vector<Box> taken_;
};

}  // namespace gradrecomp::program
