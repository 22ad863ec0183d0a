#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {

/// The regions inside a program, which remember their plans from run to run.
class InnerRegions {
 public:
  explicit InnerRegions(std::uint64_t seed, Verify verify = Verify::first_step)
      : seed_(seed), verify_(verify) {}

  /// The region around the steps that begin at `position`. Some places may share one.
  Region& at(std::size_t position);

 private:
  std::uint64_t seed_;
  Verify verify_;
  std::map<std::size_t, Region> regions_;
};

}  // namespace gradrecomp::fuzzing
