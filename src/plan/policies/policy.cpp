#include "gradrecomp/plan/policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "gradrecomp/plan/policies.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

/// What follows a name.
enum class Suffix : std::uint8_t { none, count, share };

/// A row of the registry: to add a policy, add one, and to policy_sets.h what searches begin with.
struct Family {
  std::string_view name;
  FixedPlan (*make)(const Graph& graph, double number);
  Suffix suffix = Suffix::none;
  std::string_view placeholder = {};  ///< for what follows, with what it must be
};

template <KeptSet (*keeps)(const Graph&)>
FixedPlan kept_by(const Graph& graph, double /*number*/) {
  return {keeps(graph)};
}

template <KeptSet (*keeps)(const Graph&, Index)>
FixedPlan kept_by_count(const Graph& graph, double number) {
  return {keeps(graph, static_cast<Index>(number))};
}

constexpr std::array kFamilies{
    Family{"keep_all", kept_by<keep_all>},
    Family{"drop_all", kept_by<drop_all>},
    Family{"every_", kept_by_count<every_k>, Suffix::count, "<k> (k at least 1, as in every_2)"},
    Family{"sqrt_n", kept_by<sqrt_n>},
    Family{"uniform_", kept_by_count<uniform_n>, Suffix::count, "<segments>"},
    Family{"chen_greedy", kept_by<chen_greedy>},
    Family{"pointwise_only", kept_by<pointwise_only>},
    Family{"selective", kept_by<selective>},
    Family{"whole_block_",
           [](const Graph& g, double share) { return FixedPlan{whole_block(g, share)}; },
           Suffix::share, "<share of the plain peak> (as in whole_block_0.4)"},
    Family{"revolve_",
           [](const Graph& g, double count) { return revolve_n(g, static_cast<Index>(count)); },
           Suffix::count, "<checkpoints>"},
    Family{"nested", [](const Graph& g, double /*number*/) { return nested(g); }},
};

/// The number that is all of `text`.
std::optional<double> read_number(std::string_view text) {
  double number{};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || last != end) return std::nullopt;
  return number;
}

std::optional<double> read_count(std::string_view text) {
  const bool has_digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const auto number = has_digits ? read_number(text) : std::nullopt;
  const bool is_count = number && *number >= 1 && *number <= std::numeric_limits<Index>::max();
  return is_count ? number : std::nullopt;
}

std::optional<double> read_share(std::string_view text) {
  const auto number = read_number(text);
  return number && *number > 0 && *number <= 1 ? number : std::nullopt;
}

/// A hyphen reads as an underscore. Not so in the number, where it is a sign.
bool begins_with(std::string_view text, std::string_view name) {
  const auto is_same = [](char a, char b) { return (a == '-' ? '_' : a) == b; };
  return std::ranges::equal(text.substr(0, name.size()), name, is_same);
}

/// The number of a policy of `family`, 0 if that has none; nothing if `text` does not name one.
std::optional<double> read_suffix(const Family& family, std::string_view text) {
  if (!begins_with(text, family.name)) return std::nullopt;
  text.remove_prefix(family.name.size());
  switch (family.suffix) {
    case Suffix::none:
      return text.empty() ? std::optional(0.0) : std::nullopt;
    case Suffix::count:
      return read_count(text);
    case Suffix::share:
      return read_share(text);
  }
  return std::nullopt;
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), result.ptr};
}

}  // namespace

Policy::Policy(std::string_view name) {
  for (; family_ < kFamilies.size(); ++family_) {
    const auto number = read_suffix(kFamilies.at(family_), name);
    if (!number) continue;
    number_ = *number;
    return;
  }
  raise({"Policy", "policy", '"' + std::string(name) + '"', "one of " + spellings(),
         "Check the spelling"});
}

std::string Policy::name() const {
  const Family& family = kFamilies.at(family_);
  std::string text(family.name);
  if (family.suffix == Suffix::count) text += std::to_string(static_cast<Index>(number_));
  if (family.suffix == Suffix::share) text += shortest(number_);
  return text;
}

FixedPlan Policy::plan(const Graph& graph) const {
  return kFamilies.at(family_).make(graph, number_);
}

std::string Policy::spellings() {
  std::string text;
  for (const Family& family : kFamilies) {
    if (!text.empty()) text += ", ";
    text += family.name;
    text += family.placeholder;
  }
  return text;
}

}  // namespace gradrecomp::plan
