#include "arena/planned/step_placer.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "arena/blocks/alignment.h"

namespace gradrecomp::arena {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class StepPlacing : public ::testing::Test {
 protected:
  StepPlacer::StepId begin() { return placer_.begin(addresses_); }

  /// A block of the step, placed or not.
  void* allocate(std::size_t bytes) {
    if (void* block = placer_.allocate(bytes)) return block;
    void* block = elsewhere_.allocate(bytes);
    placer_.got_elsewhere(block, bytes);
    return block;
  }
  void free(void* block) {
    placer_.freed(block);
    (is_placed(block) ? placer_.arena() : elsewhere_).free(block);
  }
  [[nodiscard]] bool is_placed(const void* block) const { return placer_.arena().owns(block); }

  /// Three blocks of which two are alive at once; returns how many were placed.
  int chain() {
    void* first = allocate(2 * kMiB);
    void* second = allocate(kMiB);
    int num = is_placed(first) + is_placed(second);
    free(first);
    void* third = allocate(2 * kMiB);
    num += is_placed(third);
    free(second);
    free(third);
    return num;
  }
  void log_chain() {
    const auto step = begin();
    EXPECT_EQ(chain(), 0);
    EXPECT_TRUE(placer_.end(step, true));
  }

  Arena elsewhere_{64 * kMiB};
  StepPlacer placer_{64 * kMiB};
  std::shared_ptr<SequenceAddresses> addresses_ = std::make_shared<SequenceAddresses>();
};

TEST_F(StepPlacing, PutsTheBlocksOfLaterStepsWhereTheFirstSays) {
  log_chain();
  for (int i = 0; i < 3; ++i) {
    const auto step = begin();
    EXPECT_EQ(chain(), 3);
    EXPECT_FALSE(placer_.end(step, true));
  }
  EXPECT_EQ(placer_.arena().bytes_in_use(), 0);
}

TEST_F(StepPlacing, TakesNoMoreThanWhatIsAliveAtOnce) {
  log_chain();
  const auto plan = addresses_->plan();
  ASSERT_EQ(plan->num_placed(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LE(*plan->offset(i) + plan->block_bytes(i), 3 * kMiB);
  }
}

TEST_F(StepPlacing, LetsABlockTooManyCostItsOwnBytes) {
  log_chain();
  const auto step = begin();
  void* extra = allocate(5 * kMiB);
  EXPECT_FALSE(is_placed(extra));
  EXPECT_EQ(chain(), 3);
  free(extra);
  placer_.end(step, true);
  EXPECT_NE(addresses_->plan(), nullptr);
}

TEST_F(StepPlacing, ForgetsAPlanThatNoLongerFits) {
  log_chain();
  const auto step = begin();
  free(allocate(kMiB));  // the first is missing
  placer_.end(step, true);
  EXPECT_EQ(addresses_->plan(), nullptr);
  log_chain();
  EXPECT_NE(addresses_->plan(), nullptr);
}

TEST_F(StepPlacing, GivesUpASequenceWhoseStepsDifferEachTime) {
  int num_logged = 0;
  for (std::size_t i = 1; i < 20; ++i) {
    const auto step = begin();
    if (step == StepPlacer::kNone) break;
    for (std::size_t j = 0; j < 4; ++j) free(allocate(i * kMiB));
    num_logged += placer_.end(step, true);
  }
  EXPECT_EQ(num_logged, 4);
  EXPECT_EQ(begin(), StepPlacer::kNone);
}

TEST_F(StepPlacing, LearnsNothingFromAStepThatWasNotComplete) {
  const auto logged = begin();
  chain();
  EXPECT_FALSE(placer_.end(logged, false));
  EXPECT_EQ(addresses_->plan(), nullptr);
  log_chain();
  placer_.end(begin(), false);
  EXPECT_NE(addresses_->plan(), nullptr);
}

TEST_F(StepPlacing, LeavesOutBlocksThatOutliveTheStep) {
  const auto logged = begin();
  void* outlives = allocate(kMiB);
  chain();
  placer_.end(logged, true);
  const auto step = begin();
  void* again = allocate(kMiB);
  EXPECT_FALSE(is_placed(again));
  EXPECT_EQ(chain(), 3);
  placer_.end(step, true);
  free(outlives);
  free(again);
}

TEST_F(StepPlacing, KeepsOutOfTheWayOfWhatIsStillAlive) {
  log_chain();
  const auto step = begin();
  void* first = allocate(2 * kMiB);
  ASSERT_TRUE(is_placed(first));
  placer_.end(step, false);
  const auto next = begin();
  EXPECT_FALSE(is_placed(allocate(2 * kMiB)));
  EXPECT_TRUE(is_placed(allocate(kMiB)));
  placer_.end(next, true);
}

TEST_F(StepPlacing, IsForOneStepAtATime) {
  const auto step = begin();
  EXPECT_EQ(begin(), StepPlacer::kNone);
  EXPECT_EQ(chain(), 0);
  EXPECT_FALSE(placer_.end(StepPlacer::kNone, true));
  EXPECT_TRUE(placer_.end(step, true));
  EXPECT_FALSE(placer_.end(step, true));
  EXPECT_NE(begin(), StepPlacer::kNone);
}

TEST_F(StepPlacing, IsForTheThreadThatBeganTheStep) {
  log_chain();
  const auto step = begin();
  std::thread([this] { EXPECT_EQ(chain(), 0); }).join();
  void* first = allocate(2 * kMiB);
  EXPECT_TRUE(is_placed(first));
  std::thread([this, first, step] {
    free(first);
    placer_.end(step, false);
  }).join();
  EXPECT_EQ(placer_.arena().bytes_in_use(), 0);
}

}  // namespace
}  // namespace gradrecomp::arena
