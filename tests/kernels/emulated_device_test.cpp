// The emulated device shows what it is there to show.
#include "emulated_device.h"

#include <cuda_runtime.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <vector>

namespace emulated_cuda {
namespace {

cudaError_t launch_of(dim3 grid, dim3 threads, void (*kernel)(std::vector<int>*),
                      std::vector<int>* memory) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  return cudaLaunchKernelEx(&config, kernel, memory);
}

void count(std::vector<int>* memory) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
  ++memory->at(row * gridDim.x * blockDim.x + column);
}

void read_neighbour(std::vector<int>* memory) {
  if (threadIdx.x > 0) (*memory)[threadIdx.x] = (*memory)[threadIdx.x - 1];
}

class EmulatedDeviceTest : public ::testing::Test {
 protected:
  void TearDown() override { device() = Device(); }
};

TEST_F(EmulatedDeviceTest, RunsEachThreadOnceInAnyOrder) {
  for (const Order order : {Order::rising, Order::falling, Order::shuffled}) {
    device().order = order;
    std::vector<int> visits(6 * 20);
    ASSERT_EQ(launch_of({3, 5}, {2, 4}, count, &visits), cudaSuccess);
    EXPECT_EQ(visits, std::vector<int>(6 * 20, 1));
  }
}

TEST_F(EmulatedDeviceTest, ShowsThatAKernelDependsOnTheOrder) {
  const auto after = [](Order order, std::uint64_t seed) {
    device().order = order;
    device().seed = seed;
    std::vector<int> memory(64);
    memory[0] = 1;
    launch_of(1, 64, read_neighbour, &memory);
    return memory;
  };
  EXPECT_NE(after(Order::rising, 1), after(Order::falling, 1));
  EXPECT_NE(after(Order::shuffled, 1), after(Order::rising, 1));
  EXPECT_EQ(after(Order::shuffled, 1), after(Order::shuffled, 1));
}

TEST_F(EmulatedDeviceTest, RefusesWhatNoCardTakes) {
  device().runs_kernels = false;
  const auto error = [](dim3 grid, dim3 threads) {
    return launch_of(grid, threads, count, nullptr);
  };
  EXPECT_EQ(error({0x7FFFFFFF, 65535, 65535}, 1024), cudaSuccess);
  for (const dim3 grid : {dim3(0x80000000), dim3(1, 65536), dim3(1, 1, 65536), dim3(0)}) {
    EXPECT_EQ(error(grid, 1), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  for (const dim3 threads : {dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(0)}) {
    EXPECT_EQ(error(1, threads), cudaErrorInvalidConfiguration);
  }
}

char* allocated(std::size_t num_bytes) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, num_bytes), cudaSuccess);
  return static_cast<char*>(memory);
}

TEST_F(EmulatedDeviceTest, ReadsAndWritesBesideMemoryAreSeen) {
  volatile char* memory = allocated(4096);
  memory[0] = 1;
  memory[4095] = 1;
  EXPECT_DEATH(memory[4096] = 1, "");
  EXPECT_DEATH(static_cast<void>(memory[4096] + 0), "");
  EXPECT_DEATH(static_cast<void>(memory[-1] + 0), "");
  EXPECT_EQ(cudaFree(const_cast<char*>(memory)), cudaSuccess);
}

TEST_F(EmulatedDeviceTest, WritesIntoWhatAlignmentNeedsAreSeenInTheEnd) {
  for (const int written : {-1, 17}) {
    const std::size_t num_bytes = 17;
    char* memory = allocated(num_bytes);
    memory[written] = 1;
    EXPECT_NONFATAL_FAILURE(cudaFree(memory), "a kernel wrote");
  }
}

}  // namespace
}  // namespace emulated_cuda
