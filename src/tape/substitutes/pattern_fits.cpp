#include "tape/substitutes/pattern_fits.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gradrecomp::tape {
namespace {

/// Elements of which kernels on the CPU do whole groups alike, in vectors or a few of them.
constexpr std::int64_t kGroup = 64;

/// The same for two sizes that differ by whole groups, if both have some.
std::int64_t without_whole_groups(std::int64_t size) {
  return size < 2 * kGroup ? size : 2 * kGroup + size % kGroup;
}

/// What the substitute of a call in float32 on the CPU does for one element does not depend on how
/// many vectors there are. A library on a device may choose by sizes, and 16 bits are compared on
/// as many elements as sizes ask for.
bool is_alike_in_all_sizes(const Op& op) {
  const Geometry& input = *op.reads.front().geometry;
  return input.is_on_cpu() && input.scalar_type() == c10::ScalarType::Float &&
         op.substitute->takes_samples(op);
}

void add(const Geometry& geometry, bool in_groups, std::vector<std::int64_t>& facts) {
  const auto strides = geometry.strides();
  facts.push_back(static_cast<std::int64_t>(geometry.scalar_type()));
  facts.push_back(static_cast<std::int64_t>(geometry.backend()));
  facts.push_back(static_cast<std::int64_t>(strides.size()));
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::int64_t size = geometry.sizes()[i];
    facts.push_back(in_groups ? without_whole_groups(size) : size);
    facts.push_back(in_groups ? without_whole_groups(strides[i]) : strides[i]);
    facts.push_back(std::ranges::count_if(strides, [&](auto s) { return s < strides[i]; }));
  }
}

/// False if it is of a type that is not known here.
bool add(const c10::IValue& argument, std::vector<std::int64_t>& facts) {
  enum Type : std::int64_t { none, boolean, integer, number, integers };
  if (argument.isNone() || argument.isTensor()) {  // read by no read, so there is none
    facts.push_back(none);
  } else if (argument.isBool()) {
    facts.insert(facts.end(), {boolean, argument.toBool() ? 1 : 0});
  } else if (argument.isInt()) {
    facts.insert(facts.end(), {integer, argument.toInt()});
  } else if (argument.isDouble()) {
    facts.insert(facts.end(), {number, std::bit_cast<std::int64_t>(argument.toDouble())});
  } else if (argument.isIntList()) {
    const auto list = argument.toIntVector();
    facts.insert(facts.end(), {integers, static_cast<std::int64_t>(list.size())});
    facts.insert(facts.end(), list.begin(), list.end());
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool PatternFits::Kind::operator==(const Kind& other) const {
  return facts == other.facts && dispatch_state == other.dispatch_state;
}

std::optional<PatternFits::Kind> PatternFits::kind_of(const Op& op, int formula) {
  Kind kind{*op.dispatch_state, {}};
  std::vector<std::int64_t>& facts = kind.facts;
  facts = {formula, std::bit_cast<std::int64_t>(op.traits),
           std::bit_cast<std::int64_t>(op.substitute),
           static_cast<std::int64_t>(op.keys.raw_repr())};
  if (op.stream()) facts.push_back(op.stream()->device().index());
  facts.push_back(static_cast<std::int64_t>(op.first_argument()));
  for (const c10::IValue& argument : op.arguments) {
    if (!add(argument, facts)) return std::nullopt;
  }
  const bool in_groups = is_alike_in_all_sizes(op);
  for (const Read& read : op.reads) {
    facts.push_back(read.argument);
    add(*read.geometry, in_groups, facts);
  }
  return kind;
}

bool PatternFits::fits(const Op& op, int formula, const std::function<bool()>& compare) {
  std::optional<Kind> kind = kind_of(op, formula);
  if (!kind) return compare();
  const auto known = std::ranges::find(known_, *kind, &Known::kind);
  if (known != known_.end()) return known->fits;
  const bool fits = compare();
  known_.push_back({std::move(*kind), fits});
  return fits;
}

}  // namespace gradrecomp::tape
