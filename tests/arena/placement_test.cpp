#include "arena/planned/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arena/blocks/alignment.h"

namespace gradrecomp::arena {
namespace {

constexpr std::size_t kUnit = kAlignment;

bool alive_at_once(const Lifetime& one, const Lifetime& other) {
  return one.begin < other.end && other.begin < one.end;
}

/// Fails where blocks that end have no place, share bytes while both are alive, or reach beyond the
/// end; or where others have a place.
void expect_sound(const Lifetimes& lifetimes, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    ASSERT_EQ(placement.offsets[i].has_value(), lifetimes[i].ends()) << i;
    if (!lifetimes[i].ends()) continue;
    const std::size_t begin = *placement.offsets[i], end = begin + lifetimes[i].bytes;
    EXPECT_EQ(begin % kAlignment, 0);
    EXPECT_LE(end, placement.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!lifetimes[j].ends() || !alive_at_once(lifetimes[i], lifetimes[j])) continue;
      const std::size_t other = *placement.offsets[j];
      ASSERT_TRUE(end <= other || other + lifetimes[j].bytes <= begin) << i << " and " << j;
    }
  }
}

/// What a step with checkpoints allocates: outputs that live until their backward, scratch within
/// each op, gradients handed from one to the next, and replays of what was dropped.
Lifetimes random_step(std::mt19937& random, std::size_t num_ops) {
  LifetimeLog log;
  std::vector<char> blocks(num_ops * 8);
  std::size_t next = 0;
  const auto allocate = [&](std::size_t bytes) {
    log.allocated(&blocks[next], bytes);
    return &blocks[next++];
  };
  const auto size = [&] { return std::size_t{65'536} << random() % 6; };
  std::vector<std::pair<char*, std::size_t>> kept;
  for (std::size_t i = 0; i < num_ops; ++i) {
    const char* scratch = random() % 2 == 0 ? allocate(size()) : nullptr;
    const std::size_t bytes = size();
    char* output = allocate(bytes);
    if (scratch != nullptr) log.freed(scratch);
    const bool drops = random() % 2 == 0;
    if (drops) log.freed(output);
    kept.emplace_back(drops ? nullptr : output, bytes);
  }
  const char* gradient = allocate(size());
  for (; !kept.empty(); kept.pop_back()) {
    auto [output, bytes] = kept.back();
    if (output == nullptr) output = allocate(bytes);
    const char* before = allocate(bytes);
    log.freed(gradient);
    log.freed(output);
    gradient = before;
  }
  return log.lifetimes();
}

TEST(Placement, OfNothingTakesNothing) {
  EXPECT_EQ(place({}).bytes, 0);
  EXPECT_EQ(least_bytes({}), 0);
}

TEST(Placement, LeavesOutWhatOutlivesTheStep) {
  const Lifetimes lifetimes{{.bytes = kUnit, .begin = 0}, {.bytes = kUnit, .begin = 1, .end = 2}};
  const auto placement = place(lifetimes);
  expect_sound(lifetimes, placement);
  EXPECT_EQ(placement.bytes, kUnit);
}

TEST(Placement, StacksWhatIsAliveAtOnceAndReusesWhatIsFree) {
  const Lifetimes lifetimes{{.bytes = 3 * kUnit, .begin = 0, .end = 3},
                            {.bytes = kUnit, .begin = 1, .end = 5},
                            {.bytes = 2 * kUnit - 1, .begin = 4, .end = 7},
                            {.bytes = kUnit, .begin = 6, .end = 8}};
  const auto placement = place(lifetimes);
  expect_sound(lifetimes, placement);
  EXPECT_EQ(least_bytes(lifetimes), 4 * kUnit);
  EXPECT_EQ(placement.bytes, 4 * kUnit);
}

TEST(Placement, OfRandomBlocksIsSound) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Lifetimes lifetimes;
    std::int64_t now = 0;
    for (std::size_t num = random() % 60; num > 0; --num) {
      Lifetime one{.bytes = 1 + random() % 2000, .begin = now++};
      if (random() % 10 != 0) one.end = one.begin + 1 + random() % 30;
      lifetimes.push_back(one);
    }
    const auto placement = place(lifetimes);
    expect_sound(lifetimes, placement);
    EXPECT_GE(placement.bytes, least_bytes(lifetimes));
  }
}

TEST(Placement, OfStepsIsCloseToTheLeast) {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    const auto lifetimes = random_step(random, 20 + random() % 200);
    const auto placement = place(lifetimes);
    expect_sound(lifetimes, placement);
    EXPECT_LE(static_cast<double>(placement.bytes),
              1.02 * static_cast<double>(least_bytes(lifetimes)));
  }
}

TEST(Placement, IsTheSameEachTime) {
  std::mt19937 random(5);
  const auto lifetimes = random_step(random, 300);
  EXPECT_EQ(place(lifetimes).offsets, place(lifetimes).offsets);
}

TEST(LifetimeLog, NotesWhatTheStepAllocates) {
  char blocks[3]{};
  LifetimeLog log;
  log.freed(&blocks[2]);  // an earlier step's
  log.allocated(&blocks[0], 10);
  log.allocated(&blocks[1], 20);
  log.freed(&blocks[0]);
  log.allocated(&blocks[0], 30);
  log.freed(&blocks[1]);
  EXPECT_EQ(log.lifetimes(), (Lifetimes{{.bytes = 10, .begin = 0, .end = 2},
                                        {.bytes = 20, .begin = 1, .end = 4},
                                        {.bytes = 30, .begin = 3}}));
}

}  // namespace
}  // namespace gradrecomp::arena
