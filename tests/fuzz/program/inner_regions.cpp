#include "fuzz/program/inner_regions.h"

#include "fuzz/program/random_plan.h"

namespace gradrecomp::fuzzing {

Region& InnerRegions::at(std::size_t position) {
  constexpr std::int64_t kTypicalPeakBytes = 4096;
  const std::size_t place = seed_ % 3 == 0 ? 0 : position % (1 + seed_ % 5);
  if (const auto known = regions_.find(place); known != regions_.end()) return known->second;
  Dice dice(seed_ + place);
  Options options = random_options(dice, kTypicalPeakBytes);
  options.verify = verify_;
  return regions_.try_emplace(place, options).first->second;
}

}  // namespace gradrecomp::fuzzing
