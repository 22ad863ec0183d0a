#include "arena/blocks/resident_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace gradrecomp::arena {
namespace {

std::size_t count(const std::vector<char>& bytes, Extent extent) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset);
  return static_cast<std::size_t>(
      std::count(first, first + static_cast<std::ptrdiff_t>(extent.bytes), 1));
}

TEST(ResidentPages, AreThoseAddedAndNotRemoved) {
  constexpr std::size_t kBytes = 200;
  std::mt19937 random(5);
  const auto any = [&] {
    const std::size_t offset = random() % kBytes;
    return Extent{offset, 1 + random() % (kBytes - offset)};
  };
  for (int run = 0; run < 50; ++run) {
    ResidentPages pages;
    std::vector<char> expected(kBytes, 0);
    for (int i = 0; i < 100; ++i) {
      const bool adds = random() % 2 == 0;
      Extent extent = any();
      extent.bytes = std::min<std::size_t>(extent.bytes, 1 + random() % 40);
      const std::size_t before = count(expected, extent);
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(extent.offset);
      std::fill_n(first, extent.bytes, adds ? 1 : 0);
      if (adds) {
        pages.add(extent);
      } else {
        ASSERT_EQ(pages.remove(extent), before);
      }
      ASSERT_EQ(pages.bytes(), count(expected, {0, kBytes}));
      const Extent looked_at = any();
      ASSERT_EQ(pages.bytes_in(looked_at), count(expected, looked_at));
      const auto last = std::find(expected.rbegin(), expected.rend(), 1);
      ASSERT_EQ(pages.end(), static_cast<std::size_t>(expected.rend() - last));
    }
  }
}

TEST(ResidentPages, HasTheLastPartWithSoManyBytes) {
  ResidentPages pages;
  pages.add({10, 10});
  pages.add({30, 10});
  EXPECT_EQ(pages.last_in({0, 50}, 4), (Extent{36, 14}));
  EXPECT_EQ(pages.last_in({0, 50}, 10), (Extent{30, 20}));
  EXPECT_EQ(pages.last_in({0, 50}, 13), (Extent{17, 33}));
  EXPECT_EQ(pages.last_in({0, 35}, 7), (Extent{18, 17}));
  EXPECT_EQ(pages.last_in({15, 20}, 100), (Extent{15, 20}));
  EXPECT_EQ(pages.last_in({20, 10}, 1), (Extent{20, 10}));
}

}  // namespace
}  // namespace gradrecomp::arena
