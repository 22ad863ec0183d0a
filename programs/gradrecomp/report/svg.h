#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradrecomp::program {

/// A place in a picture: x to the right, y downwards.
struct Point {
  double x = 0;
  double y = 0;
};

/// A rectangle in a picture.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

/// An SVG picture as text. `look` is the class of an element in the style sheet.
class Svg {
 public:
  /// `title` and `description` are for readers that show no picture.
  Svg(Point size, std::string_view title, std::string_view description, std::string_view style);

  void box(const Box& box, std::string_view look);
  void line(Point from, Point to, std::string_view look);
  /// A "polyline" or "polygon".
  void shape(std::string_view element, const std::vector<Point>& points, std::string_view look);
  void dot(Point center, double radius, std::string_view look);
  /// From `baseline` on, turned clockwise.
  void text(Point baseline, std::string_view text, std::string_view look, int degrees = 0);

  [[nodiscard]] std::string document() const;

 private:
  std::string text_;
};

}  // namespace gradrecomp::program
