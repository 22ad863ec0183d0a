#pragma once

#include <cstdint>
#include <vector>

namespace gradrecomp::fuzzing {

/// A small random source (splitmix64) that gives the same numbers on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// A number in [0, n); `n` must be positive.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  /// A number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  /// A number in [0, 1).
  double real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return real() < probability; }

  template <typename T>
  T of(const std::vector<T>& items) {
    return items[below(static_cast<std::int64_t>(items.size()))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace gradrecomp::fuzzing
