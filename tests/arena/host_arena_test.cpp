#include "arena/host_arena.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "profile/counting_allocator.h"

C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);

namespace gradrecomp::arena {
namespace {

constexpr std::int64_t kLarge = HostArena::kLeastBytes;

at::Tensor tensor_of(std::int64_t bytes) { return torch::empty({bytes}, torch::kByte); }

/// The counting allocator's blocks begin before their tensors.
bool is_in_arena(const at::Tensor& tensor) {
  return HostArena::of_process().owns(tensor.const_data_ptr());
}

class HostArenaTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
};

TEST_F(HostArenaTest, HasLargeTensorsAlone) {
  ASSERT_TRUE(profile::uses_host_arena());
  EXPECT_TRUE(is_in_arena(tensor_of(kLarge)));
  EXPECT_FALSE(is_in_arena(tensor_of(kLarge / 2)));
}

TEST_F(HostArenaTest, LeavesFillingToLibTorchsOwnAllocator) {
  FLAGS_caffe2_cpu_allocator_do_zero_fill = true;
  const auto filled = tensor_of(kLarge);
  FLAGS_caffe2_cpu_allocator_do_zero_fill = false;
  EXPECT_FALSE(is_in_arena(filled));
  EXPECT_EQ(filled.count_nonzero().item<std::int64_t>(), 0);
}

/// Adds up what allocators report to LibTorch's profiler.
class ReportedBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    (bytes > 0 ? taken : given_back) += std::abs(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t taken = 0;
  std::int64_t given_back = 0;
};

TEST_F(HostArenaTest, ReportsBlocksToLibTorchsProfiler) {
  const auto reported = std::make_shared<ReportedBytes>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reported);
    EXPECT_TRUE(is_in_arena(tensor_of(kLarge)));
  }
  EXPECT_GE(reported->taken, kLarge);
  EXPECT_EQ(reported->given_back, reported->taken);
}

// A child that took a lock over from a thread which it does not have would wait for ever.
TEST_F(HostArenaTest, ServesChildrenOfAFork) {
  std::atomic<bool> stops = false;
  std::thread busy([&stops] {
    while (!stops) tensor_of(kLarge);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // ends one that waits
      void* block = HostArena::of_process().allocate(kLarge);
      HostArena::of_process().free(block);
      _exit(block != nullptr ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stops = true;
  busy.join();
}

/// Like LibTorch's own allocator, but the program's.
class OwnAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

[[noreturn]] void try_beside_own_allocator() {
  c10::SetCPUAllocator(new OwnAllocator);
  install_cpu_counter();
  const bool is_left_alone = !profile::uses_host_arena() && !is_in_arena(tensor_of(kLarge));
  std::_Exit(is_left_alone ? 0 : 1);
}

TEST(HostArenaDeathTest, TakesNothingFromAnAllocatorOfTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(try_beside_own_allocator(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::arena
