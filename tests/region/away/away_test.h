#pragma once

#include <gtest/gtest.h>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/region.h"
#include "support/plans.h"
#include "support/step_chain.h"
#include "support/training.h"

namespace gradrecomp::test {

/// Steps of a chain whose plans have kept values away for a while.
class AwayTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  void SetUp() override {
    Region plain({.policy = "keep_all"});
    chain_.step(plain);
    gradients_ = chain_.gradients();
    graph_ = plain.graph();
  }

  /// Two steps in a region under `plan`, the second measured.
  Region expect_exact_bytes(const plan::Plan& plan, Forms forms) {
    Region region({.plan = shared(plan), .forms = forms});
    chain_.step(region);
    EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
    EXPECT_TRUE(region.last_step().followed_plan);
    EXPECT_EQ(region.last_step().offloaded_bytes, region.plan().offloaded_bytes);
    EXPECT_EQ(region.last_step().rounded_bytes, region.plan().rounded_bytes);
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    return region;
  }

  StepChain chain_;
  Tensors gradients_;  ///< of the plain step
  plan::Graph graph_;
};

}  // namespace gradrecomp::test
