#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "region/sequences/known_sequence.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// The op sequences that a region has seen, most recently followed last, and the one it goes by.
///
/// Plans beyond the most are forgotten, of the sequences that were followed longest ago. What was
/// measured outlives them, so that sequences which come in turn are profiled once.
class KnownSequences {
 public:
  using Known = std::shared_ptr<const KnownSequence>;

  explicit KnownSequences(std::int64_t max_plans) : max_plans_(max_plans) {}

  [[nodiscard]] bool is_empty() const { return sequences_.empty(); }
  [[nodiscard]] std::int64_t num_plans() const;
  /// The one that the region goes by; null: none.
  [[nodiscard]] const Known& active() const { return active_; }
  /// Null if there is none such.
  [[nodiscard]] Known last_planned() const;
  [[nodiscard]] Known find(const Sequence& sequence) const;
  [[nodiscard]] Known find(std::uint64_t signature) const;
  /// One whose hash at `call` is `hash`, which runs over all calls so far.
  [[nodiscard]] Known going_on_so(std::size_t call, std::uint64_t hash) const;

  /// Adds a sequence, in place of what was known of it, and goes by it.
  void add(Known known);
  /// From now on the region goes by `known`.
  void activate(Known known);
  void replace(const Known& known, Known by);
  void erase(const Known& known);

 private:
  void forget_plans();

  std::int64_t max_plans_;
  std::vector<Known> sequences_;
  Known active_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
