#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "courses.h"
#include "gradrecomp/plan/graph.h"
#include "open_step.h"
#include "plan/bounds/int128.h"
#include "prices.h"

namespace gradrecomp::plan {

/// What the ops in front are still to add to a partial plan, at least.
///
/// See Note [ Outlooks ] in outlook.cpp.
class Outlook {
 public:
  /// Forgets all. `prices` must outlive it.
  void begin(Index num_ops, const Prices& prices, const PlanLimits& limits);
  /// Of partial plans between `op` and the ops in front that ask for the same: all of them, and the
  /// ones that the program goes on with, which learn their places. In the order of `open`.
  void add(Index op, const OpenStep& open, std::span<const Course> all, std::span<Course> cheapest);
  /// Once every op has been passed.
  void finish();

  [[nodiscard]] bool is_known() const { return is_known_; }
  /// Whether so much was added that there may be no room for more.
  [[nodiscard]] bool is_crowded() const { return joints_.size() > kMostJoints; }
  /// What the ops before `op` add, whatever is asked of them.
  [[nodiscard]] Int128 least_before(Index op) const { return least_before_[op]; }
  /// Whether no plan within the limits begins like `course`.
  [[nodiscard]] bool is_hopeless(Index op, const OpenStep& open, const Course& course) const;

 private:
  static constexpr std::size_t kMostJoints = 4'000'000;
  static constexpr int kNumRates = 12;
  using Events = decltype(Course::events);
  using Trades = std::array<std::int64_t, kNumRates>;

  /// Partial plans that the program went on with.
  struct Place {
    OpenStep open;
    Events events{};
    Int128 lagrangian = 0;
    std::int64_t kept_bytes = 0;
    std::int64_t cost = 0;
    Int128 ahead = 0;  ///< what the ops in front add to the Lagrangian, at least
    Trades trades{};   ///< and to what is kept, with costs turned into bytes at each rate
  };

  /// From one place to another, over an op.
  struct Joint {
    std::int32_t from = 0;
    std::int32_t to = 0;
    Int128 lagrangian = 0;
    std::int64_t kept_bytes = 0;
    std::int64_t cost = 0;
  };

  [[nodiscard]] Events alike(const OpenStep& open, const Course& course) const;
  void look_back(Index op);
  [[nodiscard]] std::int64_t bytes_for(std::int64_t units, int rate) const;
  [[nodiscard]] bool is_beyond(const Place& place, const Course& course) const;

  const Prices* prices_ = nullptr;
  PlanLimits limits_;
  Int128 most_ = 0;
  bool is_known_ = false;
  std::array<std::int64_t, kNumRates> rates_{};  ///< 2^-40 bytes per unit
  std::vector<std::vector<Place>> places_;       ///< per op, between it and the ops in front
  std::vector<Joint> joints_;
  std::vector<std::size_t> first_joint_;  ///< per op, of those over it
  std::vector<Int128> least_before_;      ///< per op
};

}  // namespace gradrecomp::plan
