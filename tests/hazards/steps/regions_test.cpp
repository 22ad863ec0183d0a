// Conformance H8, H9: regions that are moved or die, and what becomes of their plans.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/steps/budget.h"
#include "support/messages.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

TEST(Regions, H8MoveAndThrowOnceMovedFrom) {
  static_assert(!std::is_copy_constructible_v<Region> &&
                std::is_nothrow_move_constructible_v<Region>);
  Region region({.policy = "drop_all"});
  Region moved = std::move(region);
  moved.run([] { return torch::ones({2}).requires_grad_().exp(); }).sum().backward();
  EXPECT_TRUE(moved.has_plan());
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { region.run([] { return 1; }); }, [&] { static_cast<void>(region.plan()); },
           [&] { static_cast<void>(region.has_plan()); },
           [&] { static_cast<void>(region.last_step()); }}) {
    EXPECT_THAT(message_of(use), HasSubstr("moved from"));
  }
}

TEST(Regions, H8PlanOutlivesTheRegionThatMadeIt) {
  plan::Plan plan;
  {
    Region region({.policy = "drop_all"});
    region.run([] { return torch::ones({2}).requires_grad_().exp().sin(); }).sum().backward();
    plan = region.plan();
  }
  EXPECT_EQ(plan.policy, "drop_all");
}

TEST(Regions, H9KeepTheirPlanWhileForwardPassesRunAlone) {
  auto x = torch::randn({8}).requires_grad_();
  Region region(kBudget);
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return x.exp().sin().tanh(); }).sum().backward();
  }
  for (int step = 0; step < 4; ++step) region.run([&] { return x.cos().exp().sin(); });
  EXPECT_TRUE(region.has_plan());
  EXPECT_EQ(region.plan().keep.size(), region.graph().values.size());
}

}  // namespace
}  // namespace gradrecomp::test
