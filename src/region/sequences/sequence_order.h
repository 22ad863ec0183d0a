#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "gradrecomp/version.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Foresees which op sequence of a region comes next from the order in which they have come.
///
/// For each length of the past, up to kLongestPast, it knows what mostly came after such a past,
/// and it goes by the length that has been right most often of late: a cycle needs a past as long
/// as what its turns have in common, and where there is no order only the commonest is right.
class SequenceOrder {
 public:
  static constexpr std::size_t kLongestPast = 16;

  /// Notes that the sequence of that signature has come.
  void came(std::uint64_t signature);
  /// The signature of the one that is most likely next; none before any has come.
  [[nodiscard]] std::optional<std::uint64_t> next() const;

 private:
  /// What mostly comes after one past.
  struct Follower {
    std::uint64_t signature = 0;
    int weight = 0;
  };
  using Pasts = std::array<std::uint64_t, kLongestPast + 1>;

  /// Hashes of the last 0, 1, ... sequences, as far as so many have come.
  [[nodiscard]] Pasts pasts() const;

  std::deque<std::uint64_t> last_;  // the last one first
  std::unordered_map<std::uint64_t, Follower> followers_;
  std::array<double, kLongestPast + 1> scores_{};  // by length: how often it has been right of late
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
