#include "region/sequences/profile_schedule.h"

#include <algorithm>
#include <bit>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::int64_t kMostNewInRow = 4;  // then sequences are taken for ever-changing
constexpr std::int64_t kLongestWhile = 64;
constexpr std::size_t kMostRemembered = 4096;

}  // namespace

bool ProfileSchedule::begin_step() {
  ++step_;
  const bool expected = single_.erase(step_) > 0;
  single_.erase(single_.begin(), single_.lower_bound(step_));
  return expected || step_ <= all_until_;
}

void ProfileSchedule::missed(std::uint64_t signature) {
  if (missed_.size() == kMostRemembered) missed_.clear();
  Missed& known = missed_[signature];
  const std::int64_t distance = step_ - known.last_step;
  known.last_step = step_;
  ++known.times;
  if (known.times == 1) {
    if (++num_new_in_row_ <= kMostNewInRow) single_.insert(step_ + 1);
  } else if (known.times <= 3) {
    single_.insert(step_ + distance);
  } else if (std::has_single_bit(static_cast<std::uint64_t>(known.times))) {
    if (step_ >= all_until_) sought_.clear();
    sought_.insert(signature);
    all_until_ = std::max(all_until_, step_ + std::min(2 * distance, kLongestWhile));
  }
}

void ProfileSchedule::profiled(std::uint64_t signature) {
  missed_.erase(signature);
  if (sought_.erase(signature) > 0 && sought_.empty()) all_until_ = step_;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
