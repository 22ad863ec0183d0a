#include "fuzz/check/rounding.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "fuzz/check/peaks.h"
#include "fuzz/check/wrappings.h"
#include "fuzz/program/random_plan.h"
#include "fuzz/world/dice.h"
#include "gradrecomp/region.h"
#include "support/plans.h"

namespace gradrecomp::fuzzing {
namespace {

/// `outcome` with nothing of its gradients but their types and shapes.
Outcome without_numbers(Outcome outcome) {
  for (Record& record : outcome.records) {
    if (!record.name.starts_with("gradient")) continue;
    record.content.resize(std::min(record.content.find(':'), record.content.size()));
  }
  return outcome;
}

Options rounding_options(Dice& dice, const plan::Graph& graph, const Outcome& plain) {
  Options options{.forms = Forms::lossy_bf16};
  if (dice.chance(0.3)) {
    draw_budget(dice, plain.measured_peak_bytes, options);
  } else {
    options.plan = test::shared(random_rounding_plan(dice, graph));
  }
  return options;
}

/// Steps of a program in one region that may round what it keeps.
class RoundedSteps {
 public:
  RoundedSteps(const Program& program, const Outcome& plain, const Options& options)
      : program_(program),
        plain_(plain),
        name_("rounded, " + described(options)),
        region_(options) {}

  void run_step(int step) {
    const std::string name = name_ + ", step " + std::to_string(step);
    const Outcome actual = run(program_, {.wrapping = in_region(region_)});
    if (region_.last_step().rounded_bytes == 0) {
      note(name, difference(plain_, actual));
    } else {
      note(name, difference(without_numbers(plain_), without_numbers(actual)));
      if (last_) note(name + " after the one before", difference(*last_, actual));
      last_ = actual;
    }
    if (step > 0) compare_peak(name, actual);
  }

  std::vector<Finding> findings;

 private:
  void note(const std::string& name, const std::string& what) {
    if (!what.empty()) findings.push_back({name, what});
  }

  void compare_peak(const std::string& name, const Outcome& actual) {
    auto finding = unlike_predicted(name, plain_, region_, actual);
    if (finding) findings.push_back(*std::move(finding));
  }

  const Program& program_;
  const Outcome& plain_;
  std::string name_;
  Region region_;
  std::optional<Outcome> last_;  ///< of a step that rounded
};

}  // namespace

std::vector<Finding> rounded_unlike_plain(const Program& program, const Outcome& plain,
                                          Verify verify) {
  if (plain.may_refuse || !plain.error.empty()) return {};
  Dice dice(program.seed ^ 0xb10a7u);
  Region profiled({.policy = "keep_all", .verify = verify});
  run(program, {.wrapping = in_region(profiled)});
  if (!profiled.has_plan()) return {};
  Options options = rounding_options(dice, profiled.graph(), plain);
  options.verify = verify;
  RoundedSteps steps(program, plain, options);
  for (int step = 0; step < 4; ++step) steps.run_step(step);
  return std::move(steps.findings);
}

}  // namespace gradrecomp::fuzzing
