#include "bundle.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

// Note [ Bundles ]
// ~~~~~~~~~~~~~~~~
// The next point is where the lowest plane is highest, less what it is away from the center: the
// relative entropy of the weights and that of the price, divided by the reach. For a mixture of
// planes the best such point is known, the weights of the center times exp(reach * slopes), and the
// mixture whose best value is lowest has the point that is looked for. It is found by moving parts
// of the mixture from the plane that is highest at its best point to the one that is lowest there,
// until they are level.
// Source: Lemarechal, Nemirovskii and Nesterov, New Variants of Bundle Methods, 1995; the moves are
// pairwise steps of Lacoste-Julien and Jaggi, On the Global Linear Convergence of Frank-Wolfe
// Optimization Variants, 2015.

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kMostPlanes = 48;
constexpr int kMostMoves = 300;
constexpr int kNumHalvings = 20;
constexpr double kLevel = 2e-5;
constexpr double kPriceReach = 0.025;  // of that of the weights

/// What weights and price add to the base of a plane.
double rise_of(const Bundle::Plane& plane, const std::vector<double>& weights, double price) {
  return price * plane.of_price +
         std::inner_product(weights.begin(), weights.end(), plane.of_weights.begin(), 0.0);
}

}  // namespace

std::vector<double> weights_of(const std::vector<double>& logs) {
  const double highest = std::ranges::max(logs);
  std::vector<double> weights(logs.size());
  double sum = 0;
  for (std::size_t i = 0; i < logs.size(); ++i) sum += weights[i] = std::exp(logs[i] - highest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// A mixture of planes, and its best point near the center.
struct Bundle::Mixture {
  const Point& center;
  double reach;
  std::vector<double> slopes;
  double price_slope = 0;
  Point point = {};
  std::vector<double> weights = {};

  Mixture(const Point& around, double how_far)
      : center(around), reach(how_far), slopes(around.logs.size(), 0.0) {}

  void add(const Known& known, double part) {
    price_slope += part * known.plane.of_price;
    for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] += part * known.plane.of_weights[i];
  }

  void find_point() {
    point = center;
    for (std::size_t i = 0; i < slopes.size(); ++i) point.logs[i] += reach * slopes[i];
    point.price *= std::exp(kPriceReach * reach * price_slope);
    weights = weights_of(point.logs);
  }

  /// A plane at that point.
  [[nodiscard]] double value_of(const Known& known) const {
    return known.base + rise_of(known.plane, weights, point.price);
  }
};

/// The lowest plane at some point, and the highest of those in the mixture.
struct Bundle::Ends {
  Known* lowest = nullptr;
  double least = 0;
  Known* highest = nullptr;
  double most = 0;
};

void Bundle::add(const std::vector<double>& weights, double price, Plane plane) {
  for (Known& known : planes_) {
    known.base = std::max(known.base, plane.value - rise_of(known.plane, weights, price));
  }
  found_.push_back({weights, price, plane.value});
  Known next{.plane = std::move(plane), .part = planes_.empty() ? 1.0 : 0.0};
  for (const Found& found : found_) {
    next.base = std::max(next.base, found.value - rise_of(next.plane, found.weights, found.price));
  }
  if (planes_.size() == kMostPlanes) drop_least();
  planes_.push_back(std::move(next));
}

/// The plane of the smallest part, mostly none.
void Bundle::drop_least() {
  const auto least = std::ranges::min_element(planes_, {}, &Known::part);
  const double left = 1 - least->part;
  planes_.erase(least);
  for (Known& known : planes_) known.part /= left;
}

Bundle::Step Bundle::step_from(const Point& center, double reach) {
  Mixture mixture(center, reach);
  for (const Known& known : planes_) mixture.add(known, known.part);
  Ends ends;
  for (int i = 0; i < kMostMoves; ++i) {
    mixture.find_point();
    ends = ends_at(mixture);
    if (ends.most - ends.least < kLevel) break;
    move_part(*ends.highest, *ends.lowest, mixture);
  }
  return {mixture.point, ends.least};
}

Bundle::Ends Bundle::ends_at(const Mixture& mixture) {
  Ends ends;
  for (Known& known : planes_) {
    const double value = mixture.value_of(known);
    if (ends.lowest == nullptr || value < ends.least) {
      ends.lowest = &known;
      ends.least = value;
    }
    if (known.part > 0 && (ends.highest == nullptr || value > ends.most)) {
      ends.highest = &known;
      ends.most = value;
    }
  }
  return ends;
}

/// As much as makes them level, or all that `from` has.
void Bundle::move_part(Known& from, Known& to, Mixture& mixture) {
  double low = 0;
  double high = from.part;
  for (int i = 0; i < kNumHalvings && low < high; ++i) {
    const double part = i == 0 ? high : (low + high) / 2;
    Mixture moved = mixture;
    moved.add(from, -part);
    moved.add(to, part);
    moved.find_point();
    const bool is_too_much = moved.value_of(to) > moved.value_of(from);
    (is_too_much ? high : low) = part;
  }
  mixture.add(from, -low);
  mixture.add(to, low);
  from.part = std::max(0.0, from.part - low);
  to.part += low;
}

}  // namespace gradrecomp::plan
