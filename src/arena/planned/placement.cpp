#include "arena/planned/placement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>

#include "arena/blocks/alignment.h"

namespace gradrecomp::arena {
namespace {

std::int64_t end_of_step(const Lifetimes& lifetimes) {
  std::int64_t end = 0;
  for (const auto& one : lifetimes) end = std::max({end, one.begin + 1, one.end});
  return end;
}

// Attempts for each order; fewer for many blocks, as one is quadratic in them.
constexpr std::size_t kMostAttempts = 20;
constexpr std::size_t kMostPlacings = 60'000;

/// Of blocks that fit, which goes first: the most urgent, of those as urgent the longest or
/// biggest.
enum class Order : std::uint8_t { longest, biggest };

using Urgency = std::vector<std::int64_t>;  // of each block

/// How high blocks are stacked at each moment of the step.
class Skyline {
 public:
  struct Stretch {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t height = 0;
  };

  explicit Skyline(std::int64_t end) : stretches_{{0, end, 0}} {}

  /// The place of the lowest stretch, of several the earliest.
  [[nodiscard]] std::size_t lowest() const {
    const auto found = std::ranges::min_element(stretches_, {}, &Stretch::height);
    return static_cast<std::size_t>(found - stretches_.begin());
  }
  [[nodiscard]] const Stretch& at(std::size_t place) const { return stretches_[place]; }

  /// Puts a block of `bytes` from `begin` to `end` upon the stretch at `place`.
  void put(std::size_t place, std::int64_t begin, std::int64_t end, std::size_t bytes) {
    const Stretch under = stretches_[place];
    std::array<Stretch, 3> parts{{{under.begin, begin, under.height},
                                  {begin, end, under.height + bytes},
                                  {end, under.end, under.height}}};
    const auto last = std::remove_if(parts.begin(), parts.end(),
                                     [](const Stretch& part) { return part.begin == part.end; });
    const auto at = stretches_.begin() + static_cast<std::ptrdiff_t>(place);
    *at = parts.front();
    stretches_.insert(at + 1, parts.begin() + 1, last);
    join(place + static_cast<std::size_t>(last - parts.begin()));
  }

  /// Raises the stretch at `place` to the lower of those beside it.
  void raise(std::size_t place) {
    std::size_t height = place > 0 ? stretches_[place - 1].height : stretches_[place + 1].height;
    if (place + 1 < stretches_.size()) height = std::min(height, stretches_[place + 1].height);
    stretches_[place].height = height;
    join(place + 1);
  }

 private:
  // Merges neighbours of equal height among the stretch at `after` and the four before it.
  void join(std::size_t after) {
    const std::size_t first = after > 4 ? after - 4 : 0;
    for (std::size_t i = std::min(after, stretches_.size() - 1); i > first; --i) {
      if (stretches_[i - 1].height != stretches_[i].height) continue;
      stretches_[i - 1].end = stretches_[i].end;
      stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  std::vector<Stretch> stretches_;
};

/// Blocks that have no place yet, in the order in which they begin.
class Waiting {
 public:
  Waiting(const Lifetimes& lifetimes, const Urgency& urgency, Order order)
      : lifetimes_(lifetimes), urgency_(urgency), order_(order) {
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      if (lifetimes[i].ends()) blocks_.push_back(i);
    }
    next_.resize(blocks_.size() + 1);
    std::iota(next_.begin(), next_.end(), std::size_t{0});
    num_left_ = blocks_.size();
  }

  [[nodiscard]] bool empty() const { return num_left_ == 0; }

  /// Takes the block that goes first of those that lie within the stretch; none where none does.
  std::optional<std::size_t> take_within(const Skyline::Stretch& stretch) {
    std::optional<std::size_t> best;
    Rank most{-1, -1, -1};
    const auto from = std::ranges::lower_bound(
        blocks_, stretch.begin, {}, [this](std::size_t block) { return lifetimes_[block].begin; });
    for (auto i = left_from(static_cast<std::size_t>(from - blocks_.begin())); i < blocks_.size();
         i = left_from(i + 1)) {
      const Lifetime& block = lifetimes_[blocks_[i]];
      if (block.begin >= stretch.end) break;
      if (block.end > stretch.end) continue;
      const Rank rank = rank_of(blocks_[i]);
      if (rank > most) best = i, most = rank;
    }
    if (!best) return std::nullopt;
    next_[*best] = *best + 1;
    --num_left_;
    return blocks_[*best];
  }

 private:
  using Rank = std::array<std::int64_t, 3>;

  [[nodiscard]] Rank rank_of(std::size_t block) const {
    const std::int64_t length = lifetimes_[block].end - lifetimes_[block].begin;
    const auto bytes = static_cast<std::int64_t>(lifetimes_[block].bytes);
    if (order_ == Order::longest) return {urgency_[block], length, bytes};
    return {urgency_[block], bytes, length};
  }

  // The first that waits from place `i` on; the paths to it become shorter with each search.
  std::size_t left_from(std::size_t i) {
    while (next_[i] != i) i = next_[i] = next_[next_[i]];
    return i;
  }

  const Lifetimes& lifetimes_;
  const Urgency& urgency_;
  Order order_;
  std::vector<std::size_t> blocks_;
  std::vector<std::size_t> next_;  ///< its own place for what waits, else a later one
  std::size_t num_left_ = 0;
};

Placement attempt(const Lifetimes& lifetimes, const Urgency& urgency, Order order) {
  Placement placement{std::vector<std::optional<std::size_t>>(lifetimes.size())};
  Waiting waiting(lifetimes, urgency, order);
  Skyline skyline(end_of_step(lifetimes));
  while (!waiting.empty()) {
    const std::size_t lowest = skyline.lowest();
    const Skyline::Stretch stretch = skyline.at(lowest);
    const auto block = waiting.take_within(stretch);
    if (!block) {
      skyline.raise(lowest);
      continue;
    }
    const Lifetime& placed = lifetimes[*block];
    const std::size_t bytes = aligned(placed.bytes);
    skyline.put(lowest, placed.begin, placed.end, bytes);
    placement.offsets[*block] = stretch.height;
    placement.bytes = std::max(placement.bytes, stretch.height + bytes);
  }
  return placement;
}

/// Makes blocks that reach above `height` more urgent for the next attempt.
void hurry(const Lifetimes& lifetimes, const Placement& placement, std::size_t height,
           Urgency& urgency) {
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const auto offset = placement.offsets[i];
    if (offset && *offset + aligned(lifetimes[i].bytes) > height) ++urgency[i];
  }
}

}  // namespace

std::size_t least_bytes(const Lifetimes& lifetimes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const auto& one : lifetimes) {
    if (!one.ends()) continue;
    const auto bytes = static_cast<std::int64_t>(aligned(one.bytes));
    changes.emplace_back(one.begin, bytes);
    changes.emplace_back(one.end, -bytes);
  }
  std::ranges::sort(changes);
  std::int64_t alive = 0, most = 0;
  for (const auto& [moment, change] : changes) most = std::max(most, alive += change);
  return static_cast<std::size_t>(most);
}

Placement place(const Lifetimes& lifetimes) {
  const std::size_t least = least_bytes(lifetimes);
  const std::size_t num_blocks = std::max<std::size_t>(lifetimes.size(), 1);
  const auto num_attempts = std::clamp<std::size_t>(kMostPlacings / num_blocks, 1, kMostAttempts);
  std::optional<Placement> best;
  std::array urgencies{Urgency(lifetimes.size()), Urgency(lifetimes.size())};
  for (std::size_t i = 0; i < 2 * num_attempts; ++i) {
    const bool is_by_size = i % 2 == 0;
    auto made = attempt(lifetimes, urgencies[i % 2], is_by_size ? Order::biggest : Order::longest);
    // On recorded steps, either order came furthest with one of these.
    hurry(lifetimes, made, is_by_size ? made.bytes - 1 : least, urgencies[i % 2]);
    if (!best || made.bytes < best->bytes) best = std::move(made);
    if (best->bytes <= least + least / 1024) break;
  }
  return *std::move(best);
}

}  // namespace gradrecomp::arena
