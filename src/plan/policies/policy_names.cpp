#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

constexpr std::array kNames{
    std::pair{PolicyKind::max_overhead, std::string_view("max_overhead")},
    std::pair{PolicyKind::max_peak_bytes, std::string_view("max_peak_bytes")},
    std::pair{PolicyKind::keep_all, std::string_view("keep_all")},
    std::pair{PolicyKind::drop_all, std::string_view("drop_all")},
    std::pair{PolicyKind::sqrt_n, std::string_view("sqrt_n")},
    std::pair{PolicyKind::chen_greedy, std::string_view("chen_greedy")},
    std::pair{PolicyKind::pointwise_only, std::string_view("pointwise_only")},
    std::pair{PolicyKind::selective, std::string_view("selective")},
    std::pair{PolicyKind::nested, std::string_view("nested")},
};

/// Names that a number follows.
constexpr std::array kCountPrefixes{
    std::pair{PolicyKind::every_k, std::string_view("every_")},
    std::pair{PolicyKind::uniform_n, std::string_view("uniform_")},
    std::pair{PolicyKind::revolve_n, std::string_view("revolve_")},
};
constexpr std::string_view kWholeBlock = "whole_block_";

/// The number that is all of `text`.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || last != end) return std::nullopt;
  return number;
}

std::optional<Policy> parse_count(std::string_view text) {
  for (const auto& [kind, prefix] : kCountPrefixes) {
    if (!text.starts_with(prefix)) continue;
    const auto count = parse_number<Index>(text.substr(prefix.size()));
    if (count && *count >= 1) return Policy{.kind = kind, .count = *count};
  }
  return std::nullopt;
}

std::optional<Policy> parse_share(std::string_view text) {
  if (!text.starts_with(kWholeBlock)) return std::nullopt;
  const auto share = parse_number<double>(text.substr(kWholeBlock.size()));
  if (!share || !(*share > 0 && *share <= 1)) return std::nullopt;
  return Policy{.kind = PolicyKind::whole_block, .share = *share};
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), result.ptr};
}

}  // namespace

Policy parse_policy(std::string_view text) {
  for (const auto& [kind, name] : kNames) {
    if (text == name) return {kind};
  }
  if (const auto policy = parse_count(text)) return *policy;
  if (const auto policy = parse_share(text)) return *policy;
  raise({"parse_policy", "policy", '"' + std::string(text) + '"',
         "one of keep_all, drop_all, every_<k> (k at least 1, as in every_2), sqrt_n, "
         "uniform_<segments>, chen_greedy, pointwise_only, selective, whole_block_<share of the "
         "plain peak> (as in whole_block_0.4), revolve_<checkpoints>, nested, max_overhead, "
         "max_peak_bytes",
         "Check the spelling"});
}

std::string to_string(const Policy& policy) {
  for (const auto& [kind, name] : kNames) {
    if (policy.kind == kind) return std::string(name);
  }
  for (const auto& [kind, prefix] : kCountPrefixes) {
    if (policy.kind == kind) return std::string(prefix) + std::to_string(policy.count);
  }
  return std::string(kWholeBlock) + shortest(policy.share);
}

FixedPlan fixed_plan(const Graph& graph, const Policy& policy) {
  switch (policy.kind) {
    case PolicyKind::keep_all:
      return {keep_all(graph)};
    case PolicyKind::drop_all:
      return {drop_all(graph)};
    case PolicyKind::every_k:
      return {every_k(graph, policy.count)};
    case PolicyKind::sqrt_n:
      return {sqrt_n(graph)};
    case PolicyKind::uniform_n:
      return {uniform_n(graph, policy.count)};
    case PolicyKind::chen_greedy:
      return {chen_greedy(graph)};
    case PolicyKind::pointwise_only:
      return {pointwise_only(graph)};
    case PolicyKind::selective:
      return {selective(graph)};
    case PolicyKind::whole_block:
      return {whole_block(graph, policy.share)};
    case PolicyKind::revolve_n:
      return revolve_n(graph, policy.count);
    case PolicyKind::nested:
      return nested(graph);
    case PolicyKind::max_overhead:
    case PolicyKind::max_peak_bytes:
      break;
  }
  raise(
      {"fixed_plan", "policy", to_string(policy), "a fixed policy", "Use make_plan for a budget"});
}

KeptSet kept_set(const Graph& graph, const Policy& policy) {
  FixedPlan plan = fixed_plan(graph, policy);
  if (plan.sweeps.empty()) return std::move(plan.keep);
  raise({"kept_set", "policy", to_string(policy), "one without sweeps", "Use fixed_plan for it"});
}

}  // namespace gradrecomp::plan
