#include "report/svg.h"

#include <fmt/format.h>

namespace gradrecomp::program {
namespace {

/// `text` as XML holds it. Control characters and broken UTF-8 have no place there at all.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return result;
}

}  // namespace

Svg::Svg(Point size, std::string_view title, std::string_view description)
    : head_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
                        "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n"
                        "<title>{2}</title>\n<desc>{3}</desc>\n",
                        size.x, size.y, escaped(title), escaped(description))) {}

void Svg::add_style(std::string_view rules) { style_ += rules; }

void Svg::box(const Box& box, std::string_view look) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"/>\n",
      box.left, box.top, box.right - box.left, box.bottom - box.top, look);
}

void Svg::line(Point from, Point to, std::string_view look) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  from.x, from.y, to.x, to.y, look);
}

void Svg::trace(std::string_view element, const std::vector<Point>& points, std::string_view look) {
  std::string places;
  for (const auto& [x, y] : points) places += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += fmt::format("<{} points=\"{}\" class=\"{}\"/>\n", element, places, look);
}

void Svg::path(const std::vector<Point>& points, std::string_view look) {
  trace("polyline", points, look);
}

void Svg::area(const std::vector<Point>& points, std::string_view look) {
  trace("polygon", points, look);
}

void Svg::dot(Point center, double radius, std::string_view look) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"/>\n",
                       center.x, center.y, radius, look);
}

void Svg::text(Point baseline, std::string_view text, std::string_view look) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", baseline.x,
                       baseline.y, look, escaped(text));
}

void Svg::upright_text(Point baseline, std::string_view text, std::string_view look) {
  body_ += fmt::format(
      "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" class=\"{}\">{}</text>\n",
      baseline.x, baseline.y, look, escaped(text));
}

std::string Svg::document() const {
  return fmt::format("{}<style>\n{}</style>\n{}</svg>\n", head_, style_, body_);
}

}  // namespace gradrecomp::program
