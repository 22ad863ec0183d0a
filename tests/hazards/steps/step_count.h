#pragma once

#include "gradrecomp/report.h"

namespace gradrecomp::test {

/// How often a region profiled and followed.
struct Count {
  int steps = 0;
  int profiled = 0;
  int followed = 0;

  void add(const StepReport& report) {
    ++steps;
    profiled += report.profiled ? 1 : 0;
    followed += report.followed_plan ? 1 : 0;
  }
};

}  // namespace gradrecomp::test
