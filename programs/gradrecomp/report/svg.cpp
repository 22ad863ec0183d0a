#include "report/svg.h"

#include <fmt/format.h>

#include <map>

namespace gradrecomp::program {
namespace {

/// `text` as XML holds it. Control characters and broken UTF-8 have no place there at all.
std::string escaped(std::string_view text) {
  const std::map<char, std::string_view> entities{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string result;
  for (const char c : text) {
    if (const auto entity = entities.find(c); entity != entities.end()) {
      result += entity->second;
    } else {
      result += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return result;
}

}  // namespace

Svg::Svg(Point size, std::string_view title, std::string_view description, std::string_view style)
    : text_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
                        "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n"
                        "<title>{2}</title>\n<desc>{3}</desc>\n<style>\n{4}</style>\n",
                        size.x, size.y, escaped(title), escaped(description), style)) {}

void Svg::box(const Box& box, std::string_view look) {
  text_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"/>\n",
      box.left, box.top, box.right - box.left, box.bottom - box.top, look);
}

void Svg::line(Point from, Point to, std::string_view look) {
  text_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  from.x, from.y, to.x, to.y, look);
}

void Svg::shape(std::string_view element, const std::vector<Point>& points, std::string_view look) {
  std::string places;
  for (const auto& [x, y] : points) places += fmt::format("{:.1f},{:.1f} ", x, y);
  text_ += fmt::format("<{} points=\"{}\" class=\"{}\"/>\n", element, places, look);
}

void Svg::dot(Point center, double radius, std::string_view look) {
  text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"/>\n",
                       center.x, center.y, radius, look);
}

void Svg::text(Point baseline, std::string_view text, std::string_view look, int degrees) {
  text_ += fmt::format(
      "<text transform=\"translate({:.1f} {:.1f}) rotate({})\" class=\"{}\">{}</text>\n",
      baseline.x, baseline.y, degrees, look, escaped(text));
}

std::string Svg::document() const { return text_ + "</svg>\n"; }

}  // namespace gradrecomp::program
