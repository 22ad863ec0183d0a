#pragma once

#include "gradrecomp/region.h"
#include "support/live_memory.h"
#include "support/training.h"

namespace gradrecomp::test {

/// Trains `model` under every policy, on the device of `input`, and expects the second step's peak
/// there and its replays to be the predicted ones.
template <typename Model>
void expect_predicted_peaks(Model model, const at::Tensor& input, bool preallocate) {
  const auto forward = [&] {
    at::Tensor x = input;
    for (auto& stage : model->stages()) {
      begin_stage(stage.name);
      x = stage.forward(x);
    }
    return x;
  };
  std::int64_t num_replayed_ops = 0;
  for (const Options& options : every_policy()) {
    Region region(options);
    const auto step = [&] {
      if (preallocate) {
        preallocate_gradients(*model);
      } else {
        model->zero_grad();
      }
      return peak_of([&] { return region.run(forward).pow(2).sum(); }, input.device());
    };
    step();
    const auto measured = step();
    EXPECT_EQ(measured, region.plan().predicted_peak_bytes) << region.brief_report();
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    EXPECT_TRUE(region.last_step().followed_plan);
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  EXPECT_GT(num_replayed_ops, 0);
}

}  // namespace gradrecomp::test
