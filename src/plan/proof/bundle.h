#pragma once

#include <limits>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// What is known of a concave function of weights and a price: planes that it nowhere exceeds.
///
/// Weights are above 0 and of sum 1, the price is above 0. Planes may be a little too low; then
/// they are raised by what is found above them. See Note [ Bundles ] in bundle.cpp.
class Bundle {
 public:
  /// Where the function is asked for.
  struct Point {
    std::vector<double> logs = {};  ///< of the weights, up to a constant
    double price = 0;
  };

  /// What the function is at some weights and price, and how it changes with each.
  struct Plane {
    double value = 0;
    std::vector<double> of_weights = {};
    double of_price = 0;
  };

  /// Where planes leave most to be found near a point, and what they leave there.
  struct Step {
    Point point = {};
    double promised = 0;
  };

  void add(const std::vector<double>& weights, double price, Plane plane);

  /// From `center` on; the higher `reach`, the further. There must be a plane.
  [[nodiscard]] Step step_from(const Point& center, double reach);

  void clear() {
    planes_.clear();
    found_.clear();
  }

 private:
  struct Known {
    double base = std::numeric_limits<double>::lowest();  ///< its value without weights and price
    Plane plane = {};
    double part = 0;  ///< in the mixture of the last step
  };
  /// What the function has been at some weights and price.
  struct Found {
    std::vector<double> weights = {};
    double price = 0;
    double value = 0;
  };
  struct Mixture;
  struct Ends;

  [[nodiscard]] Ends ends_at(const Mixture& mixture);
  static void move_part(Known& from, Known& to, Mixture& mixture);
  void drop_least();

  std::vector<Known> planes_;
  std::vector<Found> found_;
};

/// Those of a point, of sum 1.
std::vector<double> weights_of(const std::vector<double>& logs);

}  // namespace gradrecomp::plan
