#include "region/sequences/known_sequences.h"

#include <algorithm>
#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

namespace {

constexpr std::int64_t kMeasurementsAPlan = 16;

bool has_plan(const KnownSequences::Known& known) { return known->plan != nullptr; }

/// The first that satisfies it; null if none does.
template <typename Iterator, typename IsSo>
KnownSequences::Known first_of(Iterator begin, Iterator end, IsSo is_so) {
  const auto known = std::find_if(begin, end, is_so);
  return known == end ? nullptr : *known;
}

}  // namespace

std::int64_t KnownSequences::num_plans() const {
  return std::ranges::count_if(sequences_, has_plan);
}

KnownSequences::Known KnownSequences::last_planned() const {
  return first_of(sequences_.rbegin(), sequences_.rend(), has_plan);
}

KnownSequences::Known KnownSequences::find(const Sequence& sequence) const {
  return first_of(sequences_.begin(), sequences_.end(),
                  [&](const Known& known) { return *known->recording_plan.sequence == sequence; });
}

KnownSequences::Known KnownSequences::find(std::uint64_t signature) const {
  return first_of(sequences_.begin(), sequences_.end(),
                  [&](const Known& known) { return known->signature() == signature; });
}

KnownSequences::Known KnownSequences::going_on_so(std::size_t call, std::uint64_t hash) const {
  return first_of(sequences_.begin(), sequences_.end(), [&](const Known& known) {
    const Sequence& sequence = *known->recording_plan.sequence;
    return call < sequence.size() && sequence[call] == hash;
  });
}

void KnownSequences::add(Known known) {
  if (const Known before = find(*known->recording_plan.sequence)) std::erase(sequences_, before);
  const auto num_measured = static_cast<std::int64_t>(sequences_.size());
  if (num_measured / kMeasurementsAPlan >= max_plans_) sequences_.erase(sequences_.begin());
  activate(std::move(known));
}

void KnownSequences::activate(Known known) {
  std::erase(sequences_, known);
  sequences_.push_back(known);
  active_ = std::move(known);
  forget_plans();
}

void KnownSequences::replace(const Known& known, Known by) {
  if (active_ == known) active_ = by;
  std::ranges::replace(sequences_, known, by);
}

void KnownSequences::erase(const Known& known) {
  std::erase(sequences_, known);
  if (active_ == known) active_ = nullptr;
}

void KnownSequences::forget_plans() {
  auto excess = num_plans() - max_plans_;
  for (Known& known : sequences_) {
    if (excess <= 0) return;
    if (!has_plan(known)) continue;
    auto forgotten = std::make_shared<KnownSequence>(*known);
    forgotten->plan = nullptr;
    forgotten->recording_plan.retentions = nullptr;
    forgotten->recording_plan.sweeps = nullptr;
    forgotten->recording_plan.absences = nullptr;
    known = std::move(forgotten);
    --excess;
  }
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
