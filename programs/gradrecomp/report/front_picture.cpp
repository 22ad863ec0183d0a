#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "format.h"
#include "report/label_layout.h"
#include "report/reports.h"
#include "report/svg.h"

namespace gradrecomp::program {
namespace {

constexpr Point kSize{800, 500};
constexpr Box kPlot{.left = 72, .top = 84, .right = 776, .bottom = 442};
constexpr double kLetterWidth = 6.9;  // of the widest usual font at 12 pixels
constexpr double kLabelHeight = 14;
constexpr double kMostShown = 0.4;  // overhead at the right edge

constexpr std::string_view kStyle =
    "text { font-family: Helvetica, Arial, 'DejaVu Sans', sans-serif; font-size: 12px;"
    " fill: #1f2328; }\n"
    ".title { font-size: 16px; font-weight: bold; }\n"
    ".note { fill: #57606a; }\n"
    ".middle { text-anchor: middle; }\n"
    ".end { text-anchor: end; }\n"
    ".paper { fill: #ffffff; }\n"
    ".grid { stroke: #e4e7eb; stroke-width: 1; }\n"
    ".axis { stroke: #57606a; stroke-width: 1; }\n"
    ".front { fill: none; stroke: #0b62a8; stroke-width: 2; }\n"
    ".point { fill: #0b62a8; }\n"
    ".impossible { fill: #d9dee4; }\n"
    ".policy { fill: #c2410c; stroke: #ffffff; stroke-width: 1; }\n"
    ".chosen { fill: #ffffff; stroke: #0b62a8; stroke-width: 3; }\n"
    ".lead { stroke: #8c959f; stroke-width: 1; }\n";

/// The least of 1, 2, 5, 10, 20, ... percent that makes at most `num` steps of `whole`.
double tick_step(double whole, int num) {
  constexpr std::array kSteps{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5};
  for (const double step : kSteps) {
    if (whole <= step * num) return step;
  }
  return std::ceil(whole / num);
}

/// One mark with its label; marks at one place share it.
struct Mark {
  Point place;
  std::string label;
  std::string_view look = "policy";
};

class Picture {
 public:
  explicit Picture(const Study& study)
      : study_(study),
        right_(right_end()),
        top_(top_end()),
        svg_(kSize, title(), "Predicted activation peak against overhead.", kStyle),
        layout_({kPlot.left + 3, kPlot.top + 2, kPlot.right - 3, kPlot.bottom - 3}) {}

  std::string draw() {
    svg_.box({0, 0, kSize.x, kSize.y}, "paper");
    svg_.text({16, 26}, title(), "title");
    svg_.text({16, 46},
              fmt::format("Plain training peaks at {} of activations. Overhead: {} of replays over "
                          "a plain step's.",
                          mebibytes(study_.chosen.predicted_plain_peak_bytes), cost_words()),
              "note");
    draw_legend();
    draw_grid();
    draw_impossible();
    draw_axes();
    draw_front();
    draw_marks();
    return svg_.document();
  }

 private:
  [[nodiscard]] double overhead(const plan::Plan& plan) const {
    return plan.predicted_overhead(study_.cost);
  }
  [[nodiscard]] double x_of(double overhead) const {
    return kPlot.left + std::min(overhead / right_, 1.0) * (kPlot.right - kPlot.left);
  }
  [[nodiscard]] double y_of(double peak) const {
    return kPlot.bottom - peak / top_ * (kPlot.bottom - kPlot.top);
  }
  [[nodiscard]] Point place_of(const plan::Plan& plan) const {
    return {x_of(overhead(plan)), y_of(predicted_share(plan))};
  }

  /// Past what is there to see, at most kMostShown.
  [[nodiscard]] double right_end() const {
    double most = overhead(study_.chosen);
    for (const auto& plan : study_.front) most = std::max(most, overhead(plan));
    for (const auto& plan : study_.policies) {
      if (overhead(plan) <= kMostShown) most = std::max(most, overhead(plan));
    }
    return std::clamp(std::ceil(most * 1.08 / 0.05) * 0.05, 0.05, kMostShown);
  }

  [[nodiscard]] double top_end() const {
    double most = predicted_share(study_.chosen);
    for (const auto& plan : study_.policies) most = std::max(most, predicted_share(plan));
    return std::max(1.0, most) * 1.08;
  }

  [[nodiscard]] std::string title() const {
    constexpr std::size_t kLongest = 84;
    const auto& text = study_.step.origin.description;
    return text.size() <= kLongest ? text : fmt::format("{:.{}}...", text, kLongest - 3);
  }

  [[nodiscard]] std::string cost_words() const {
    return study_.cost == plan::CostModel::flops ? "FLOPs" : "measured seconds";
  }

  [[nodiscard]] bool has_proven_peaks() const {
    return std::ranges::any_of(study_.front, &plan::Plan::proven_peak_bytes);
  }

  void draw_legend() {
    constexpr double kY = 66;
    svg_.line({17, kY - 4}, {39, kY - 4}, "front");
    svg_.dot({28, kY - 4}, 3, "point");
    svg_.text({46, kY}, "best plans found", "");
    svg_.dot({176, kY - 4}, 5, "policy");
    svg_.text({187, kY}, "fixed policies", "");
    svg_.dot({304, kY - 4}, 5, "chosen");
    svg_.text({316, kY}, "plan for the budget", "");
    if (!has_proven_peaks()) return;
    svg_.box({462, kY - 10, 484, kY + 2}, "impossible");
    svg_.text({491, kY}, "proven out of reach of every plan", "");
  }

  void draw_grid() {
    const double x_step = tick_step(right_, 8);
    for (double x = 0; x <= right_ * 1.0001; x += x_step) {
      svg_.line({x_of(x), kPlot.top}, {x_of(x), kPlot.bottom}, "grid");
      svg_.text({x_of(x), kPlot.bottom + 18}, fmt::format("{:g}%", 100 * x), "middle");
    }
    const double y_step = tick_step(top_, 6);
    for (double y = 0; y <= top_; y += y_step) {
      svg_.line({kPlot.left, y_of(y)}, {kPlot.right, y_of(y)}, "grid");
      svg_.text({kPlot.left - 8, y_of(y) + 4}, fmt::format("{:g}%", 100 * y), "end");
    }
  }

  void draw_axes() {
    svg_.line({kPlot.left, kPlot.top}, {kPlot.left, kPlot.bottom}, "axis");
    svg_.line({kPlot.left, kPlot.bottom}, {kPlot.right, kPlot.bottom}, "axis");
    const double middle = (kPlot.left + kPlot.right) / 2;
    svg_.text({middle, kPlot.bottom + 42},
              fmt::format("overhead (% of a plain step's {})", cost_words()), "middle");
    svg_.text({22, (kPlot.top + kPlot.bottom) / 2}, "predicted activation peak (% of plain)",
              "middle", -90);
  }

  /// A bound holds at its plan's overhead and below it, so it is drawn to the left.
  void draw_impossible() {
    std::vector<Point> stairs{{kPlot.left, kPlot.bottom}};
    for (const auto& plan : study_.front) {
      const double y = y_of(share(plan.proven_peak_bytes, plan.predicted_plain_peak_bytes));
      const Point from{stairs.back().x, y};
      const Point to{std::max(from.x, x_of(overhead(plan))), y};
      stairs.insert(stairs.end(), {from, to});
      layout_.block(from, to);
    }
    stairs.push_back({stairs.back().x, kPlot.bottom});
    if (has_proven_peaks()) svg_.shape("polygon", stairs, "impossible");
  }

  /// The plans of the study that none of it beats, by rising overhead.
  [[nodiscard]] std::vector<Point> best_places() const {
    auto plans = study_.front;
    plans.insert(plans.end(), study_.policies.begin(), study_.policies.end());
    plans.push_back(study_.chosen);
    std::vector<Point> places;
    for (const auto& plan : plans) {
      if (overhead(plan) <= right_) places.push_back(place_of(plan));
    }
    std::ranges::sort(places, {}, [](const Point& p) { return std::pair(p.x, -p.y); });
    double highest = y_of(top_);
    std::erase_if(places, [&](const Point& place) {
      const bool beaten = place.y <= highest;
      highest = std::max(highest, place.y);
      return beaten;
    });
    return places;
  }

  void draw_front() {
    const auto places = best_places();
    if (places.empty()) return;
    std::vector<Point> steps;
    for (const Point& next : places) {
      if (!steps.empty()) steps.push_back({next.x, steps.back().y});
      steps.push_back(next);
    }
    steps.push_back({kPlot.right, steps.back().y});
    for (std::size_t i = 1; i < steps.size(); ++i) layout_.block(steps[i - 1], steps[i]);
    svg_.shape("polyline", steps, "front");
    for (const Point& place : places) svg_.dot(place, places.size() > 60 ? 1.5 : 3, "point");
  }

  [[nodiscard]] std::vector<Mark> marks() const {
    constexpr double kSamePlace = 4;
    const auto& chosen = study_.chosen;
    std::vector<Mark> list{
        {place_of(chosen),
         fmt::format("plan: {} at {}", percent(predicted_share(chosen)), percent(overhead(chosen))),
         "chosen"}};
    for (const auto& plan : study_.policies) {
      const bool beyond = overhead(plan) > right_;
      const auto label =
          beyond ? fmt::format("{} ({:.0f}%)", plan.policy, 100 * overhead(plan)) : plan.policy;
      const auto place = place_of(plan);
      const auto same = std::find_if(list.begin() + 1, list.end(), [&](const Mark& other) {
        return std::abs(place.x - other.place.x) + std::abs(place.y - other.place.y) < kSamePlace;
      });
      if (same == list.end()) {
        list.push_back({place, label});
      } else {
        same->label += ", " + label;
      }
    }
    return list;
  }

  void draw_mark(const Mark& mark) {
    const auto [x, y] = mark.place;
    if (x >= kPlot.right) {  // it lies there or beyond
      svg_.shape("polygon", {{x + 8, y}, {x - 4, y - 6}, {x - 4, y + 6}}, "policy");
    } else {
      svg_.dot(mark.place, 5, mark.look);
    }
  }

  void draw_label(const Mark& mark) {
    const Point size{kLetterWidth * static_cast<double>(mark.label.size()), kLabelHeight};
    const auto [box, led, lead_end] = layout_.place(mark.place, size);
    if (led) svg_.line(mark.place, lead_end, "lead");
    const bool left_of_mark = box.right <= mark.place.x + 1;
    svg_.text({left_of_mark ? box.right : box.left, box.bottom - 3}, mark.label,
              left_of_mark ? "end" : "");
  }

  void draw_marks() {
    const auto list = marks();
    for (const auto& [place, label, look] : list) {
      layout_.block({place.x - 6, place.y - 6, place.x + 6, place.y + 6});
    }
    for (const Mark& mark : list) draw_label(mark);
    for (const Mark& mark : list) draw_mark(mark);  // above the lines to the labels
  }

  const Study& study_;
  double right_;
  double top_;
  Svg svg_;
  LabelLayout layout_;
};

}  // namespace

std::string front_picture(const Study& study) { return Picture(study).draw(); }

}  // namespace gradrecomp::program
