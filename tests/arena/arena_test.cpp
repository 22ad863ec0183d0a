#include "arena/blocks/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "arena/blocks/alignment.h"

namespace gradrecomp::arena {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t distance(const void* from, const void* to) {
  return static_cast<std::size_t>(static_cast<const char*>(to) - static_cast<const char*>(from));
}

/// Pages of `bytes` from `begin` that hold memory.
std::size_t num_resident_pages(void* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(mincore(begin, bytes, pages.data()), 0);
  std::size_t num = 0;
  for (const auto one : pages) num += one & 1;
  return num;
}

TEST(Arena, PutsEachBlockAtTheLowestAddressThatHasRoom) {
  Arena arena(64 * kMiB);
  void* first = arena.allocate(kMiB);
  void* second = arena.allocate(2 * kMiB);
  void* third = arena.allocate(kMiB);
  EXPECT_EQ(distance(first, second), kMiB);
  EXPECT_EQ(distance(first, third), 3 * kMiB);
  arena.free(second);
  EXPECT_EQ(arena.allocate(kMiB), second);
  EXPECT_EQ(distance(first, arena.allocate(2 * kMiB)), 4 * kMiB);
  EXPECT_EQ(distance(first, arena.allocate(kMiB)), 2 * kMiB);
}

TEST(Arena, PutsABlockWhereItIsToldUnlessAnotherLiesThere) {
  Arena arena(64 * kMiB);
  void* first = arena.allocate_at(0, kMiB);
  void* second = arena.allocate_at(4 * kMiB, kMiB);
  EXPECT_EQ(distance(first, second), 4 * kMiB);
  EXPECT_EQ(arena.allocate_at(5 * kMiB - kAlignment, kMiB), nullptr);
  EXPECT_EQ(arena.allocate_at(3 * kMiB + kAlignment, kMiB), nullptr);
  EXPECT_NE(arena.allocate_at(3 * kMiB, kMiB), nullptr);
  arena.free(second);
  EXPECT_EQ(arena.allocate_at(4 * kMiB, kMiB), second);
}

TEST(Arena, HasNothingBeyondItsRange) {
  Arena arena(32 * kMiB);
  EXPECT_EQ(arena.allocate(0), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(arena.allocate(32 * kMiB + 1), nullptr);
  EXPECT_EQ(arena.allocate_at(31 * kMiB, 2 * kMiB), nullptr);
  void* whole = arena.allocate(32 * kMiB);
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(arena.owns(whole));
  EXPECT_TRUE(arena.owns(static_cast<char*>(whole) + 32 * kMiB - 1));
  EXPECT_FALSE(arena.owns(static_cast<char*>(whole) + 32 * kMiB));
  EXPECT_FALSE(arena.owns(&arena));
  EXPECT_EQ(arena.allocate(1), nullptr);
  arena.free(whole);
  EXPECT_EQ(arena.bytes_in_use(), 0);
}

TEST(Arena, GivesBackThePagesThatNoBlockCovers) {
  Arena arena(64 * kMiB);
  void* first = arena.allocate(4 * kMiB);
  void* second = arena.allocate(4 * kMiB);
  void* third = arena.allocate(4 * kMiB);
  std::memset(first, 1, 12 * kMiB);
  arena.free(second);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(num_resident_pages(first, 12 * kMiB), 12 * kMiB / page);
  arena.give_back_free();
  EXPECT_EQ(num_resident_pages(first, 12 * kMiB), 8 * kMiB / page);
  EXPECT_EQ(num_resident_pages(second, 4 * kMiB), 0);
  EXPECT_EQ(static_cast<char*>(third)[0], 1);
  EXPECT_EQ(static_cast<char*>(first)[4 * kMiB - 1], 1);
}

TEST(Arena, GivesBackInTimeWhatNoBlockReachesAnyMore) {
  Arena arena(64 * kMiB);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* small = nullptr;
  const auto use = [&](std::size_t bytes) {
    small = arena.allocate(bytes);
    std::memset(small, 1, bytes);
    arena.free(small);
  };
  use(12 * kMiB);
  arena.end_period();
  use(4 * kMiB);
  arena.end_period();  // the large one was in the period before
  EXPECT_EQ(num_resident_pages(small, 12 * kMiB), 12 * kMiB / page);
  use(4 * kMiB);
  arena.end_period();
  EXPECT_EQ(num_resident_pages(small, 12 * kMiB), 4 * kMiB / page);
  use(12 * kMiB);
  EXPECT_EQ(num_resident_pages(small, 12 * kMiB), 12 * kMiB / page);
}

TEST(Arena, KeepsInTimeWhatBlocksCover) {
  Arena arena(64 * kMiB);
  void* first = arena.allocate(4 * kMiB);
  auto* second = static_cast<unsigned char*>(arena.allocate(4 * kMiB));
  std::memset(second, 7, 4 * kMiB);
  arena.free(first);
  for (int i = 0; i < 4; ++i) arena.end_period();
  EXPECT_EQ(second[0], 7);
  EXPECT_EQ(second[4 * kMiB - 1], 7);
}

/// Blocks of a MiB, every second one of which goes, and then larger ones, for which no gap has
/// room.
struct Fragmented {
  static constexpr int kBlocks = 128;
  static constexpr int kLargeBlocks = 16;

  explicit Fragmented(Arena& of) : arena(of) {}

  void take() {
    for (int i = 0; i < kBlocks; ++i) add(kMiB, i);
    for (int i = kBlocks - 2; i >= 0; i -= 2) {
      arena.free(blocks[i]);
      blocks.erase(blocks.begin() + i);
    }
    for (int i = 0; i < kLargeBlocks; ++i) add(4 * kMiB, i);
  }
  void add(std::size_t bytes, int fill) {
    blocks.push_back(static_cast<unsigned char*>(arena.allocate(bytes)));
    std::memset(blocks.back(), fill, bytes);
    if (begin == nullptr) begin = blocks.back();
  }
  [[nodiscard]] std::size_t resident_bytes() const {
    return num_resident_pages(begin, 256 * kMiB) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }

  Arena& arena;
  std::vector<unsigned char*> blocks;
  unsigned char* begin = nullptr;
};

TEST(Arena, GivesBackPagesBetweenBlocksThatComeToMuch) {
  Arena arena(256 * kMiB);
  Fragmented step(arena);
  step.take();
  // What blocks took so far allows for little.
  EXPECT_GT(step.resident_bytes(), 170 * kMiB);
  for (int i = 0; i < 2'000; ++i) arena.free(arena.allocate(4 * kMiB));
  EXPECT_EQ(arena.bytes_in_use(), 128 * kMiB);
  EXPECT_LE(step.resident_bytes(), 128 * kMiB + 128 * kMiB / 32 + 2 * kMiB);
  EXPECT_LE(step.resident_bytes(), arena.resident_bytes() + kMiB);
  for (int i = 0; i < Fragmented::kBlocks / 2; ++i) {
    EXPECT_EQ(step.blocks[i][0], 2 * i + 1);
    EXPECT_EQ(step.blocks[i][kMiB - 1], 2 * i + 1);
  }
}

TEST(Arena, KeepsPagesBetweenBlocksThatComeToLittle) {
  Arena arena(64 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 33; ++i) blocks.push_back(arena.allocate(kMiB));
  std::memset(blocks.front(), 1, 33 * kMiB);
  arena.free(blocks[7]);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < 1'000; ++i) arena.free(arena.allocate_at(40 * kMiB, kMiB));
  EXPECT_EQ(num_resident_pages(blocks.front(), 33 * kMiB), 33 * kMiB / page);
}

TEST(Arena, KeepsWhatBlocksContain) {
  struct Block {
    unsigned char* begin;
    std::size_t bytes;
    unsigned char fill;
  };
  Arena arena(256 * kMiB);
  std::mt19937 random(9);
  std::vector<Block> blocks;
  std::size_t bytes_in_use = 0;
  for (int i = 0; i < 3'000; ++i) {
    if (random() % 100 == 0) arena.give_back_free();
    if (blocks.size() < 30 || (random() % 2 == 0 && blocks.size() < 60)) {
      const std::size_t most = random() % 4 == 0 ? 1'000'000 : 200'000;
      const std::size_t bytes = 1 + random() % most;
      void* begin = arena.allocate(bytes);
      ASSERT_NE(begin, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(begin) % kAlignment, 0);
      blocks.push_back(
          {static_cast<unsigned char*>(begin), bytes, static_cast<unsigned char>(random() % 256)});
      std::memset(begin, blocks.back().fill, bytes);
      bytes_in_use += aligned(bytes);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block block = blocks.back();
      for (std::size_t j = 0; j < block.bytes; ++j) ASSERT_EQ(block.begin[j], block.fill);
      arena.free(block.begin);
      blocks.pop_back();
      bytes_in_use -= aligned(block.bytes);
    }
    ASSERT_EQ(arena.bytes_in_use(), bytes_in_use);
  }
}

TEST(Arena, ServesSeveralThreads) {
  Arena arena(256 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&arena, mark] {
      std::mt19937 random(mark);
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 70'000 + random() % 100'000;
        auto* block = static_cast<unsigned char*>(arena.allocate(bytes));
        ASSERT_NE(block, nullptr);
        std::memset(block, mark, bytes);
        std::this_thread::yield();
        for (std::size_t j = 0; j < bytes; j += 1000) ASSERT_EQ(block[j], mark);
        arena.free(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(arena.bytes_in_use(), 0);
}

/// Ends the process: 0 if an arena of `bytes` under a limit of `limit` bytes of addresses has a
/// block just where it is expected to.
[[noreturn]] void try_under_limit(std::size_t limit, std::size_t bytes, bool expects_block) {
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::_Exit(1);
  Arena arena(bytes);
  void* block = arena.allocate(kMiB);
  if (block != nullptr) std::memset(block, 1, kMiB);
  std::_Exit((block != nullptr) == expects_block && !arena.owns(nullptr) ? 0 : 2);
}

TEST(ArenaDeathTest, TakesWhatALimitOnAddressesLeaves) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more addresses than the limit leaves";
#endif
  EXPECT_EXIT(try_under_limit(8192 * kMiB, 65'536 * kMiB, true), testing::ExitedWithCode(0), "");
}

std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Ends the process: 0 if of `left` bytes of addresses, which two arenas want for themselves, half
/// are there for others.
[[noreturn]] void try_beside_others(std::size_t left) {
  const std::size_t limit = mapped_bytes() + left;
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::_Exit(1);
  const Arena first(65'536 * kMiB);
  const Arena second(65'536 * kMiB);
  void* others = mmap(nullptr, left / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::_Exit(others != MAP_FAILED ? 0 : 2);
}

// Whatever the limit is: what a batch system sets may be just what the machine has, or half of it.
TEST(ArenaDeathTest, LeavesHalfOfTheAddressesToOthers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more addresses than the limit leaves";
#endif
  for (const std::size_t left : {65'536, 70'000, 32'768, 33'000, 131'072, 512}) {
    EXPECT_EXIT(try_beside_others(left * kMiB), testing::ExitedWithCode(0), "") << left;
  }
}

TEST(ArenaDeathTest, IsEmptyWhereNoAddressesAreLeft) {
  EXPECT_EXIT(try_under_limit(kMiB, 1024 * kMiB, false), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::arena
