// Uses all that a consumer links: the planner, and a step through a region with its backward.
#include <ATen/ATen.h>

#include <iostream>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/region/region.h"

int main() {
  const auto x = at::ones({4, 4}).requires_grad_();
  gradrecomp::Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    region.run([&] { return x.exp().sin().sum(); }).backward();
  }
  gradrecomp::plan::validate(region.graph());
  std::cout << region.full_report();
  return region.last_step().num_replayed_ops > 0 ? 0 : 1;
}
