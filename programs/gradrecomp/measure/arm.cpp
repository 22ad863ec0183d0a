#include "measure/arm.h"

#include <fmt/format.h>

#include <algorithm>

#include "bad_input.h"
#include "input/validators.h"

namespace gradrecomp::program {

Arm parse_arm(const std::string& text) {
  if (text == "plain") return {text, {}};
  if (const auto policy = read_policy(text)) return {policy->name(), {.policy = *policy}};
  const auto percent =
      text.ends_with('%') ? read_nonnegative(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!percent) {
    reject("An arm of --compare", text,
           fmt::format("plain, a fixed policy ({}) or an overhead of at least 0%, such as 18%.",
                       plan::Policy::spellings()));
  }
  return {text, {.max_overhead = *percent / 100}};
}

Arm main_arm(const Options& options) {
  if (options.plan != nullptr) return {"plan", options};
  if (options.policy) return {options.policy->name(), options};
  return {options.max_peak_bytes ? "max_peak_bytes" : "max_overhead", options};
}

std::vector<Arm> arms_to_run(const std::vector<Arm>& arms, const Arm& last) {
  std::vector<Arm> chosen;
  for (const Arm& arm : arms) {
    const bool runs_anyway = arm.name == "plain" || arm.name == last.name;
    const bool is_chosen = std::ranges::find(chosen, arm.name, &Arm::name) != chosen.end();
    if (!runs_anyway && !is_chosen) chosen.push_back(arm);
  }
  chosen.push_back(last);
  return chosen;
}

}  // namespace gradrecomp::program
