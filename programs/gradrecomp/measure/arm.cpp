#include "measure/arm.h"

#include <algorithm>
#include <stdexcept>

#include "bad_input.h"
#include "gradrecomp/plan/policies.h"
#include "input/validators.h"

namespace gradrecomp::program {
namespace {

constexpr std::string_view kChoices =
    "plain, keep-all, drop-all, every-1, every-2, ..., sqrt, pointwise-only or an overhead such as "
    "18%. Pass one of these.";

std::string policy_spelling(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  return name == "sqrt" ? "sqrt_n" : name;
}

bool is_fixed_policy(const std::string& name) {
  try {
    const auto kind = plan::parse_policy(name).kind;
    return kind != plan::PolicyKind::max_overhead && kind != plan::PolicyKind::max_peak_bytes;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

Arm parse_arm(std::string_view option, std::string_view text, plan::CostModel cost) {
  if (text.ends_with('%')) {
    const auto percent = read_nonnegative(text.substr(0, text.size() - 1));
    if (!percent) reject(option, "arm", text, "a finite overhead of at least 0%, such as 18%.");
    return {std::string(text), {.max_overhead = *percent / 100, .cost = cost}};
  }
  const std::string name = policy_spelling(text);
  if (name == "plain") return {name, {}};
  if (!is_fixed_policy(name)) reject(option, "arm", text, kChoices);
  return {name, {.cost = cost, .policy = name}};
}

std::vector<Arm> parse_arms(std::string_view option, std::string_view text, plan::CostModel cost) {
  std::vector<Arm> arms;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    arms.push_back(parse_arm(option, text.substr(0, comma), cost));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return arms;
}

Arm main_arm(const Options& options) {
  if (options.plan != nullptr) return {"plan", options};
  if (!options.policy.empty()) return {options.policy, options};
  return {options.max_peak_bytes ? "max_peak_bytes" : "max_overhead", options};
}

std::vector<Arm> arms_to_run(const std::vector<Arm>& arms, const Arm& last) {
  std::vector<Arm> chosen;
  const auto has = [&](const std::string& name) {
    return std::any_of(chosen.begin(), chosen.end(),
                       [&](const Arm& arm) { return arm.name == name; });
  };
  for (const Arm& arm : arms) {
    if (arm.name != "plain" && arm.name != last.name && !has(arm.name)) chosen.push_back(arm);
  }
  chosen.push_back(last);
  return chosen;
}

}  // namespace gradrecomp::program
