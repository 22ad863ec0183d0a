#include "outlook.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/bounds/cost_units.h"

// Note [ Outlooks ]
// ~~~~~~~~~~~~~~~~~
// A program over ops goes from the last op to the first, so each partial plan knows what the ops
// behind take, and of those in front no more than a sum over values. Most partial plans are
// hopeless long before that sum tells. By prices alone few are left at each op; so the program runs
// by prices first, remembers all that it went on with and what led from one to the next, and then
// goes back from the first op to the last: what do the ops in front add at least, from here? When
// it runs again and compares loads, it finds each partial plan's likes among those, and gives up
// all from which that comes to too much.
//
// Two things are asked of what lies ahead:
// - The Lagrangian: costs, and bytes at the line's moments by their weights. It is the line's, the
//   same for all partial plans.
// - What is kept there, with costs turned into bytes at several rates. What ops in front keep adds
//   to every load so far, whichever moment is the worst of a partial plan; and what they may cost
//   is what it has left. So each partial plan has lines of its own.
//
// Likes are those that ask for the same, with visits that begin no earlier: what these leave behind
// costs less, and they may do whatever the others do. What was given up on the first run lies ahead
// of no plan within the limits that comes to as much as its like had come to.

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max() / 2;

}  // namespace

void Outlook::begin(Index num_ops, const Prices& prices, const PlanLimits& limits) {
  constexpr double kRatio = 1.5;  // of a rate to the one before it
  prices_ = &prices;
  limits_ = limits;
  most_ = prices.most(limits.peak_bytes, limits.units);
  is_known_ = false;
  for (int i = 0; i < kNumRates; ++i) {
    const double rate = prices.bytes_per_unit() * std::pow(kRatio, i - kNumRates / 2);
    rates_[i] = std::llround(std::ldexp(std::min(rate, 1e6), kCostBits));
  }
  const auto num_places = static_cast<std::size_t>(num_ops) + 1;
  places_.assign(num_places, {});
  places_.back().emplace_back();
  joints_.clear();
  first_joint_.assign(num_places, 0);
  least_before_.assign(num_places, 0);
}

void Outlook::add(Index op, const OpenStep& open, std::span<const Course> all,
                  std::span<Course> cheapest) {
  std::vector<Place>& places = places_[op];
  if (places.empty()) first_joint_[op] = joints_.size();
  const auto first = static_cast<std::int32_t>(places.size());
  for (const Course& course : cheapest) {
    places.push_back({.open = open,
                      .events = alike(open, course),
                      .lagrangian = course.lagrangian,
                      .kept_bytes = course.kept_bytes,
                      .cost = course.cost});
  }
  for (const Course& course : all) {
    const Events events = alike(open, course);
    const Place& from = places_[op + 1][course.origin];
    for (auto to = first; to < static_cast<std::int32_t>(places.size()); ++to) {
      if (!std::ranges::equal(places[to].events, events, std::ranges::greater_equal())) continue;
      joints_.push_back({course.origin, to, course.lagrangian - from.lagrangian,
                         course.kept_bytes - from.kept_bytes, course.cost - from.cost});
      break;
    }
  }
  for (std::size_t i = 0; i < cheapest.size(); ++i) {
    cheapest[i].origin = first + static_cast<std::int32_t>(i);
  }
}

void Outlook::finish() {
  if (places_.front().empty()) return;
  is_known_ = true;
  for (Index op = 0; op + 1 < static_cast<Index>(places_.size()); ++op) look_back(op);
}

/// From what lies ahead of the places in front of `op` to the same of those behind it.
void Outlook::look_back(Index op) {
  std::vector<Place>& behind = places_[op + 1];
  for (Place& place : behind) {
    place.ahead = most_ - place.lagrangian + 1;  // of what was given up
    place.trades.fill(kNowhere);
  }
  const std::size_t end = op > 0 ? first_joint_[op - 1] : joints_.size();
  for (std::size_t j = first_joint_[op]; j < end; ++j) {
    const Joint& joint = joints_[j];
    const Place& to = places_[op][joint.to];
    Place& from = behind[joint.from];
    from.ahead = std::min(from.ahead, joint.lagrangian + to.ahead);
    for (int i = 0; i < kNumRates; ++i) {
      const std::int64_t trade = joint.kept_bytes + bytes_for(joint.cost, i) + to.trades[i];
      from.trades[i] = std::min(from.trades[i], trade);
    }
  }
  least_before_[op + 1] = std::ranges::min_element(behind, {}, &Place::ahead)->ahead;
}

bool Outlook::is_hopeless(Index op, const OpenStep& open, const Course& course) const {
  OpenStep key = open;
  key.merged = 0;
  const Events events = alike(open, course);
  const std::vector<Place>& places = places_[op];
  auto place = std::ranges::lower_bound(places, key, {}, &Place::open);
  for (; place != places.end() && place->open == key; ++place) {
    if (!std::ranges::equal(place->events, events, std::ranges::greater_equal())) continue;
    if (course.lagrangian + place->ahead > most_ || is_beyond(*place, course)) return true;
  }
  return false;
}

bool Outlook::is_beyond(const Place& place, const Course& course) const {
  if (course.lagrangian < place.lagrangian) return false;
  const std::int64_t room = limits_.peak_bytes - std::ranges::max(course.loads);
  const std::int64_t units = limits_.units - course.cost;
  for (int i = 0; i < kNumRates; ++i) {
    if (place.trades[i] > room + bytes_for(units, i) + 1) return true;
  }
  return false;
}

/// The events at which visits begin, or others that no weight tells from them.
Outlook::Events Outlook::alike(const OpenStep& open, const Course& course) const {
  Events events{};
  for (std::size_t visit = 1; visit <= open.num_visits; ++visit) {
    events[visit] = prices_->last_alike(course.events[visit]);
  }
  return events;
}

std::int64_t Outlook::bytes_for(std::int64_t units, int rate) const {
  return static_cast<std::int64_t>((Int128{rates_[rate]} * units) >> kCostBits);
}

}  // namespace gradrecomp::plan
