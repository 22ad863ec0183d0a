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
  Svg(Point size, std::string_view title, std::string_view description);
  void add_style(std::string_view rules);

  void box(const Box& box, std::string_view look);
  void line(Point from, Point to, std::string_view look);
  void path(const std::vector<Point>& points, std::string_view look);
  void area(const std::vector<Point>& points, std::string_view look);
  void dot(Point center, double radius, std::string_view look);
  void text(Point baseline, std::string_view text, std::string_view look);
  /// Reads upwards.
  void upright_text(Point baseline, std::string_view text, std::string_view look);

  [[nodiscard]] std::string document() const;

 private:
  void trace(std::string_view element, const std::vector<Point>& points, std::string_view look);

  std::string head_;
  std::string style_;
  std::string body_;
};

}  // namespace gradrecomp::program
