#include "arena/blocks/gaps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gradrecomp::arena {
namespace {

using Extents = std::vector<Extent>;

TEST(Gaps, TakeTheFirstThatHasRoom) {
  Gaps gaps(100);
  EXPECT_EQ(gaps.take_first(10), 0);
  EXPECT_EQ(gaps.take_first(20), 10);
  EXPECT_EQ(gaps.take_first(30), 30);
  gaps.give_back({0, 10});
  gaps.give_back({30, 30});
  EXPECT_EQ(gaps.take_first(11), 30);
  EXPECT_EQ(gaps.take_first(10), 0);
  EXPECT_EQ(gaps.take_first(60), std::nullopt);
  EXPECT_EQ(gaps.all(), (Extents{{41, 59}}));
}

TEST(Gaps, OfAnEmptyRangeAreNone) {
  Gaps gaps(0);
  EXPECT_EQ(gaps.take_first(1), std::nullopt);
  EXPECT_FALSE(gaps.take({0, 1}));
}

TEST(Gaps, ThatTouchAreOne) {
  Gaps gaps(30);
  ASSERT_TRUE(gaps.take({0, 10}));
  ASSERT_TRUE(gaps.take({10, 10}));
  ASSERT_TRUE(gaps.take({20, 10}));
  gaps.give_back({0, 10});
  gaps.give_back({20, 10});
  EXPECT_EQ(gaps.all(), (Extents{{0, 10}, {20, 10}}));
  gaps.give_back({10, 10});
  EXPECT_EQ(gaps.all(), (Extents{{0, 30}}));
}

/// A range in which each byte is taken or free.
class Bytes {
 public:
  explicit Bytes(std::size_t num) : taken_(num) {}

  [[nodiscard]] bool is_free(Extent extent) const {
    if (extent.end() > taken_.size()) return false;
    for (std::size_t i = extent.offset; i < extent.end(); ++i) {
      if (taken_[i]) return false;
    }
    return true;
  }
  [[nodiscard]] std::optional<std::size_t> first_free(std::size_t bytes) const {
    for (std::size_t offset = 0; offset + bytes <= taken_.size(); ++offset) {
      if (is_free({offset, bytes})) return offset;
    }
    return std::nullopt;
  }
  void set(Extent extent, bool taken) {
    for (std::size_t i = extent.offset; i < extent.end(); ++i) taken_[i] = taken;
  }
  [[nodiscard]] std::size_t end_of_taken() const {
    std::size_t end = taken_.size();
    while (end > 0 && !taken_[end - 1]) --end;
    return end;
  }
  [[nodiscard]] Extents gaps() const {
    Extents found;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i]) continue;
      if (found.empty() || found.back().end() < i) found.push_back({i, 0});
      ++found.back().bytes;
    }
    return found;
  }

 private:
  std::vector<bool> taken_;
};

TEST(Gaps, AreWhatNoBlockCovers) {
  constexpr std::size_t kBytes = 200;
  std::mt19937 random(17);
  Gaps gaps(kBytes);
  Bytes bytes(kBytes);
  Extents blocks;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = 1 + random() % 20;
    const Extent wanted{random() % kBytes, size};
    switch (random() % 4) {
      case 0: {
        const auto offset = gaps.take_first(size);
        ASSERT_EQ(offset, bytes.first_free(size));
        if (!offset) break;
        blocks.push_back({*offset, size});
        bytes.set(blocks.back(), true);
        break;
      }
      case 1: {
        const bool takes = gaps.take(wanted);
        ASSERT_EQ(takes, bytes.is_free(wanted));
        if (!takes) break;
        blocks.push_back(wanted);
        bytes.set(wanted, true);
        break;
      }
      default:
        if (blocks.empty()) break;
        std::swap(blocks[random() % blocks.size()], blocks.back());
        gaps.give_back(blocks.back());
        bytes.set(blocks.back(), false);
        blocks.pop_back();
    }
    ASSERT_EQ(gaps.all(), bytes.gaps());
    ASSERT_EQ(gaps.end_of_taken(), bytes.end_of_taken());
  }
}

}  // namespace
}  // namespace gradrecomp::arena
