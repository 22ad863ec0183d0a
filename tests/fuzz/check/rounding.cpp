#include "fuzz/check/rounding.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fuzz/check/peaks.h"
#include "fuzz/check/wrappings.h"
#include "fuzz/program/random_plan.h"
#include "fuzz/world/dice.h"
#include "gradrecomp/region.h"

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
    options.plan = std::make_shared<const plan::Plan>(random_rounding_plan(dice, graph));
  }
  return options;
}

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
  Region region(options);
  std::vector<Finding> findings;
  std::optional<Outcome> last;
  for (int step = 0; step < 4; ++step) {
    const std::string name = "rounded, " + described(options) + ", step " + std::to_string(step);
    Outcome actual = run(program, {.wrapping = in_region(region)});
    const bool is_exact = region.last_step().rounded_bytes == 0;
    const auto unlike_plain = is_exact
                                  ? difference(plain, actual)
                                  : difference(without_numbers(plain), without_numbers(actual));
    if (!unlike_plain.empty()) findings.push_back({name, unlike_plain});
    if (last && !is_exact) {
      const auto unlike_last = difference(*last, actual);
      if (!unlike_last.empty()) findings.push_back({name + " after the last", unlike_last});
    }
    // Before a call that fails leaves what would before the next, of which alone a plan knows.
    if (step > 0 && plain.caught.empty()) {
      if (auto finding = unlike_predicted(name, plain, region, actual)) {
        findings.push_back(*std::move(finding));
      }
    }
    if (!is_exact) last = std::move(actual);
  }
  return findings;
}

}  // namespace gradrecomp::fuzzing
