#include "plan/proof/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace gradrecomp::plan {
namespace {

/// The least of some random planes, which all rise with one weight or the other and fall or rise
/// with the price.
class LeastPlane {
 public:
  explicit LeastPlane(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> part(0, 1);
    for (int i = 0; i < 8; ++i) {
      Bundle::Plane& plane = planes_.emplace_back();
      plane.of_weights = {part(random), part(random)};
      plane.of_price = i % 2 == 0 ? -part(random) : part(random);
    }
  }

  [[nodiscard]] Bundle::Plane at(const std::vector<double>& weights, double price) const {
    Bundle::Plane least{.value = 1e9};
    for (const Bundle::Plane& plane : planes_) {
      const double value = weights[0] * plane.of_weights[0] + weights[1] * plane.of_weights[1] +
                           price * plane.of_price;
      if (value >= least.value) continue;
      least = plane;
      least.value = value;
    }
    return least;
  }

  /// On a grid.
  [[nodiscard]] double highest() const {
    constexpr int kSteps = 600;
    double highest = -1e9;
    for (int i = 0; i <= kSteps; ++i) {
      for (int j = 0; j <= kSteps; ++j) {
        const double weight = static_cast<double>(i) / kSteps;
        const double price = 3.0 * j / kSteps;
        highest = std::max(highest, at({weight, 1 - weight}, price).value);
      }
    }
    return highest;
  }

 private:
  std::vector<Bundle::Plane> planes_;
};

/// The highest value that steps of a bundle come to.
struct Climb {
  double highest = -1e9;
  double promised = 0;  ///< by the last step
};

Climb climb(const LeastPlane& function, int num_steps) {
  Bundle bundle;
  Bundle::Point point{.logs = {0, 0}, .price = 1};
  Bundle::Point center = point;
  Climb climb;
  double reach = 5;
  for (int i = 0; i < num_steps; ++i) {
    const std::vector<double> weights = weights_of(point.logs);
    const Bundle::Plane plane = function.at(weights, point.price);
    reach *= plane.value > climb.highest ? 1.3 : 1;
    if (plane.value > climb.highest) {
      climb.highest = plane.value;
      center = point;
    }
    bundle.add(weights, point.price, plane);
    Bundle::Step step = bundle.step_from(center, reach);
    climb.promised = step.promised;
    point = step.point;
  }
  return climb;
}

TEST(Bundle, ClimbsToTheTopOfTheLeastPlane) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const LeastPlane function(seed);
    const double highest = function.highest();
    const Climb found = climb(function, 60);
    EXPECT_NEAR(found.highest, highest, 0.01);
    EXPECT_GE(found.promised, found.highest - 1e-4);
  }
}

TEST(Bundle, RaisesPlanesThatAreTooLow) {
  Bundle bundle;
  const Bundle::Point center{.logs = {0, 0}, .price = 1};
  bundle.add({0.5, 0.5}, 1, {.value = 0.2, .of_weights = {0, 0}, .of_price = 0});
  EXPECT_NEAR(bundle.step_from(center, 1).promised, 0.2, 1e-9);
  bundle.add({0.5, 0.5}, 1, {.value = 0.3, .of_weights = {0, 0}, .of_price = 0});
  EXPECT_NEAR(bundle.step_from(center, 1).promised, 0.3, 1e-9);
}

TEST(Bundle, GoesOnWithManyPlanes) {
  const LeastPlane function(3);
  EXPECT_NEAR(climb(function, 300).highest, function.highest(), 0.01);
}

TEST(Bundle, WeightsAreOfSumOneWhateverTheirLogarithms) {
  const std::vector<double> weights = weights_of({-2000, -2000 + std::log(3.0)});
  EXPECT_NEAR(weights[0], 0.25, 1e-12);
  EXPECT_NEAR(weights[1], 0.75, 1e-12);
}

}  // namespace
}  // namespace gradrecomp::plan
