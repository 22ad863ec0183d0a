// What region_steps_test.py calls: training through a region, in C++.
#include <ATen/ATen.h>

#include "gradrecomp/region.h"

namespace {

at::Tensor forward(const at::Tensor& x) { return at::dropout(x.exp(), 0.5, true).sin().sum(); }

// The gradient of one step whose dropout draws from a seed of its own.
template <typename Run>
at::Tensor gradient(const at::Tensor& x, const Run& run) {
  at::manual_seed(7);
  run([&] { return forward(x); }).backward();
  return std::exchange(x.mutable_grad(), at::Tensor());
}

}  // namespace

/// Replays of three steps through a region, or -1 if a gradient is not that of the plain step.
extern "C" int region_steps() {
  const auto x = at::linspace(-1, 1, 64).requires_grad_();
  const auto plain = gradient(x, [](const auto& body) { return body(); });
  gradrecomp::Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    const auto wrapped = gradient(x, [&](const auto& body) { return region.run(body); });
    if (!at::equal(plain, wrapped)) return -1;
  }
  return static_cast<int>(region.last_step().num_replayed_ops);
}
