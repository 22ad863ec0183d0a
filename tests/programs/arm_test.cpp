#include "measure/arm.h"

#include "programs/expect_bad_input.h"

namespace gradrecomp::program {
namespace {

std::string name_of(const std::string& text) { return parse_arm(text).name; }

std::vector<std::string> names_of(const std::vector<Arm>& arms) {
  std::vector<std::string> names;
  for (const Arm& arm : arms) names.push_back(arm.name);
  return names;
}

TEST(Arm, NamesPoliciesAsTheyAreSpelled) {
  EXPECT_EQ(name_of("every-2"), "every_2");
  EXPECT_EQ(name_of("every_2"), "every_2");
  EXPECT_EQ(name_of("sqrt-n"), "sqrt_n");
  EXPECT_EQ(name_of("keep-all"), "keep_all");
  EXPECT_EQ(name_of("drop_all"), "drop_all");
  EXPECT_EQ(name_of("pointwise-only"), "pointwise_only");
}

TEST(Arm, TakesAnOverheadInPercent) {
  const Arm arm = parse_arm("18%");
  EXPECT_EQ(arm.name, "18%");
  EXPECT_DOUBLE_EQ(arm.options.max_overhead.value(), 0.18);
}

TEST(Arm, RefusesUnknownNames) {
  expect_bad_input([] { name_of("every-0"); },
                   "An arm of --compare is every-0, but must be plain, a fixed policy (keep_all, ");
  expect_bad_input([] { name_of(""); }, "arm of --compare is empty, but must be");
  for (const std::string text : {"max-overhead", "x%", "nan%", "-1%", "18"}) {
    expect_bad_input([&] { name_of(text); }, "arm of --compare is " + text + ", but must be");
  }
}

TEST(Arm, RunsEachOnceAndTheMainOneLast) {
  std::vector<Arm> arms;
  for (const auto* text : {"plain", "every-2", "sqrt_n", "every_2", "keep_all"}) {
    arms.push_back(parse_arm(text));
  }
  EXPECT_EQ(names_of(arms_to_run(arms, main_arm({.policy = "sqrt_n"}))),
            (std::vector<std::string>{"every_2", "keep_all", "sqrt_n"}));
  EXPECT_EQ(main_arm({.max_overhead = 0.1}).name, "max_overhead");
  EXPECT_EQ(main_arm({.max_peak_bytes = 1}).name, "max_peak_bytes");
  EXPECT_EQ(main_arm({.plan = std::make_shared<const plan::Plan>()}).name, "plan");
}

}  // namespace
}  // namespace gradrecomp::program
