#include "line_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "proven_line.h"

namespace gradrecomp::plan {
namespace {

constexpr int kMostLines = 400;
constexpr int kUsualLines = 60;
constexpr int kPatience = 25;  // lines that prove no more, until more visits are told apart
constexpr int kStuck = 40;     // the same, until the fit ends
constexpr int kFewestVisits = 2;
constexpr int kMuchMore = 5;  // times the work for each visit more
constexpr double kFirstReach = 20;
constexpr double kReachOfMoreVisits = 60;
constexpr double kLittleLeft = 0.0003;  // of the plain peak

}  // namespace

LineFit::LineFit(OpProgram& program, const Proof& first, std::int64_t plain_peak_bytes)
    : program_(program),
      scale_bytes_(static_cast<double>(plain_peak_bytes)),
      reach_(kFirstReach),
      best_{.line = first} {
  choose_moments(first);
}

/// The highest event of every few. They begin with the weights of the line's moments nearest to
/// them, and a little.
void LineFit::choose_moments(const Proof& first) {
  constexpr std::size_t kMostMoments = 400;
  constexpr double kLittle = 1e-7;
  const std::vector<std::int64_t>& bytes = program_.base_bytes();
  const std::size_t stride = 3 + bytes.size() / kMostMoments;
  for (std::size_t begin = 0; begin < bytes.size(); begin += stride) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(stride, bytes.size() - begin);
    const auto highest = std::max_element(from, from + static_cast<std::ptrdiff_t>(count));
    moments_.push_back(static_cast<Index>(highest - bytes.begin()));
  }
  std::vector<double> weights(moments_.size(), kLittle);
  for (const auto& [event, weight] : first.moments) {
    const auto place = std::min(static_cast<std::size_t>(event) / stride, weights.size() - 1);
    weights[place] += std::ldexp(static_cast<double>(weight), -ProvenLine::kWeightBits);
  }
  for (const double weight : weights) point_.logs.push_back(std::log(weight));
}

Proof LineFit::current() const {
  constexpr std::int64_t kLeastWeight = std::int64_t{1} << (ProvenLine::kWeightBits - 16);
  const std::vector<double> weights = weights_of(point_.logs);
  const double highest_price = static_cast<double>(ProvenLine::kHighestPrice);
  Proof line{.price = std::llround(std::min(point_.price / price_scale_, highest_price))};
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    const auto whole = std::llround(std::ldexp(weights[m], ProvenLine::kWeightBits));
    if (whole >= kLeastWeight) line.moments.push_back({moments_[m], whole});
  }
  return line;
}

void LineFit::note(std::int64_t peak_bytes, const Proof& line) {
  if (peak_bytes <= best_.peak_bytes) return;
  best_.peak_bytes = peak_bytes;
  best_.line = line;
}

/// Under the line that proves most, more follows where all rivals count.
void LineFit::sharpen(const Goal& goal) {
  if (num_visits_ == 0 || best_.peak_bytes >= goal.peak_bytes) return;
  program_.follow(best_.line);
  const auto least = least_under(best_.line, goal, {kMostPricedWork, num_visits_});
  if (least.exists && !least.gave_up) note(least.least_peak_bytes, best_.line);
}

const LineFit::Fitted& LineFit::run(const Goal& goal, std::int64_t work) {
  best_.peak_bytes = std::max(best_.peak_bytes, goal.proven_peak_bytes);
  if (num_lines_ == 0) scale_price(goal.units);
  while (!is_done(goal, work)) {
    const Proof line = current();
    program_.follow(line);
    if (num_lines_++ == 0) num_visits_ = num_visits_within(goal, work / kUsualLines);
    const OpProgram::Effort effort{kMostPricedWork, num_visits_, Rivals::of_as_many_visits};
    auto least = least_under(line, goal, effort);
    if (!least.exists) break;
    if (least.gave_up) {
      if (!tell_fewer_apart() && !step_less_far()) break;
      continue;
    }
    note(least.least_peak_bytes, line);
    if (!tell_more_apart_where_idle(least)) step(line, least, goal.units);
  }
  sharpen(goal);
  return best_;
}

/// So that the price is that of all units that are allowed, as a share of the plain peak.
void LineFit::scale_price(std::int64_t units) {
  const double weight = std::ldexp(scale_bytes_, ProvenLine::kWeightBits);
  price_scale_ = static_cast<double>(std::max<std::int64_t>(1, units)) / weight;
  point_.price = static_cast<double>(best_.line.price) * price_scale_;
}

bool LineFit::is_done(const Goal& goal, std::int64_t work) const {
  return best_.peak_bytes >= goal.peak_bytes || num_lines_ >= kMostLines || num_idle_ >= kStuck ||
         work_ >= work;
}

/// What fewer visits cannot prove, more may, in several times the work: from the weights on under
/// which fewer have proven most.
bool LineFit::tell_more_apart_where_idle(const OpProgram::Priced& least) {
  ++num_idle_;
  if (least.least_peak_bytes > highest_least_bytes_) {
    num_idle_ = 0;
    highest_least_bytes_ = least.least_peak_bytes;
    highest_ = point_;
  }
  const bool pays = num_visits_ < most_visits_ && least.work < kMostPricedWork / kMuchMore;
  const auto highest = static_cast<double>(highest_least_bytes_);
  const bool is_level = promised_ - highest / scale_bytes_ < kLittleLeft;
  num_level_ = is_level ? num_level_ + 1 : 0;
  const bool has_converged = num_level_ >= kPatience / 2;
  if (has_converged && !pays) num_idle_ = kStuck;
  if ((num_idle_ < kPatience && !has_converged) || !pays) return false;
  ++num_visits_;
  num_idle_ = 0;
  num_level_ = 0;
  point_ = highest_;
  bundle_.clear();
  center_ = {};
  promised_ = 1;
  reach_ = std::min(reach_, kReachOfMoreVisits);
  return true;
}

/// Where so many take too long, for good. False if there are fewest already.
bool LineFit::tell_fewer_apart() {
  if (num_visits_ == kFewestVisits) return false;
  most_visits_ = --num_visits_;
  return true;
}

std::int64_t LineFit::first_rise() const {
  constexpr double kRise = 1.0 / 400;
  return static_cast<std::int64_t>(kRise * scale_bytes_) + 1;
}

/// Where a line takes too long, one nearer to the last good one may not. False if there is none.
bool LineFit::step_less_far() {
  constexpr double kPart = 0.25;
  constexpr double kLeastReach = 0.01;
  if (center_.logs.empty() || reach_ < kLeastReach) return false;
  reach_ *= kPart;
  move_to(bundle_.step_from(center_, reach_));
  return true;
}

/// As many as can be told apart with so much work for a line.
int LineFit::num_visits_within(const Goal& goal, std::int64_t work) {
  for (int num_visits = kMostVisits; num_visits > kFewestVisits; --num_visits) {
    const std::int64_t peak_bytes = std::min(goal.peak_bytes - 1, best_.peak_bytes + first_rise());
    const auto least = program_.find_priced({peak_bytes, goal.units}, {work, num_visits});
    work_ += least.work;
    if (!least.gave_up) return num_visits;
  }
  return kFewestVisits;
}

// The nearer a limit is to what is proven, the fewer partial plans are within it. So it rises from
// there, by a small part of the plain peak at first.
OpProgram::Priced LineFit::least_under(const Proof& line, const Goal& goal,
                                       const OpProgram::Effort& effort) {
  const std::int64_t proven_bytes = best_.peak_bytes;
  for (std::int64_t rise = first_rise();; rise *= 2) {
    const std::int64_t peak_bytes = std::min(goal.peak_bytes - 1, proven_bytes + rise);
    auto least = program_.find_priced({peak_bytes, goal.units}, effort);
    work_ += least.work;
    if (least.exists) return least;
    note(peak_bytes + 1, line);
    if (best_.peak_bytes >= goal.peak_bytes) return least;
  }
}

/// To where the planes through what cheapest partial plans hold leave most. Goes on from the last
/// line that has kept some of what was promised of it.
void LineFit::step(const Proof& line, const OpProgram::Priced& least, std::int64_t units) {
  constexpr double kPartHeld = 0.1;
  constexpr double kFurther = 1.5;
  const double value = static_cast<double>(least.least_peak_bytes) / scale_bytes_;
  add_plane(line, least, units);
  // The same point would be next, too.
  const bool tells_nothing = least.least_peak_bytes == last_bytes_ && least.units == last_units_;
  if (tells_nothing) reach_ /= 2;
  last_bytes_ = least.least_peak_bytes;
  last_units_ = least.units;
  const bool is_first = center_.logs.empty();
  if (is_first || value > center_value_ + kPartHeld * (promised_ - center_value_)) {
    center_ = point_;
    center_value_ = value;
    reach_ *= is_first ? 1 : kFurther;
  }
  move_to(bundle_.step_from(center_, reach_));
}

void LineFit::move_to(Bundle::Step next) {
  point_ = std::move(next.point);
  promised_ = next.promised;
}

void LineFit::add_plane(const Proof& line, const OpProgram::Priced& least, std::int64_t units) {
  Bundle::Plane plane{.value = static_cast<double>(least.least_peak_bytes) / scale_bytes_};
  for (const Index moment : moments_) {
    plane.of_weights.push_back(static_cast<double>(least.loads[moment]) / scale_bytes_);
  }
  plane.of_price = static_cast<double>(least.units - units) / static_cast<double>(units);
  std::vector<double> weights(moments_.size(), 0);
  auto next = line.moments.begin();
  for (std::size_t m = 0; m < moments_.size() && next != line.moments.end(); ++m) {
    if (next->event != moments_[m]) continue;
    weights[m] = std::ldexp(static_cast<double>(next->weight), -ProvenLine::kWeightBits);
    ++next;
  }
  bundle_.add(weights, static_cast<double>(line.price) * price_scale_, std::move(plane));
}

}  // namespace gradrecomp::plan
