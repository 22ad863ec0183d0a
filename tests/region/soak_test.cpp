// Conformance M13: a ResNet-18 that trains for long on images of changing sizes and batches.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "arena/host_arena.h"
#include "gradrecomp/memory_meter.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/region.h"
#include "support/live_memory.h"

namespace gradrecomp::test {
namespace {

// What steps add to the heap and to the resident set; a sanitizer's own memory is in neither bound.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnMalloc = false;
#else
constexpr bool kOwnMalloc = true;
#endif

// A tape of this model takes some 100 KB, so one that stays behind now and then is seen.
constexpr double kMaxBytesPerStep = 4096;
// Pages of which some bytes are in use come and go by the megabyte, so over 80 steps only what
// stays behind in each of them is sure to be seen.
constexpr double kMaxResidentBytesPerStep = 64 << 10;

int num_steps() {
  const char* given = std::getenv("GRADRECOMP_SOAK_STEPS");
  return given != nullptr ? std::max(std::atoi(given), 100) : 100;
}

double heap_bytes() {
  const auto heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

/// Without free memory that is kept for later.
double resident_bytes() {
  release_free_host_memory();
  double size = 0;
  double resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * 4096;
}

double median(std::vector<double> values, std::ptrdiff_t first, std::ptrdiff_t last) {
  std::vector<double> part(values.begin() + first, values.begin() + last);
  std::nth_element(part.begin(), part.begin() + std::ssize(part) / 2, part.end());
  return part[part.size() / 2];
}

// Bytes per step between the second and the last tenth of a run: the first one warms up.
double slope(const std::vector<double>& bytes) {
  const auto tenth = std::ssize(bytes) / 10;
  const auto end = std::ssize(bytes);
  const double grown = median(bytes, end - tenth, end) - median(bytes, tenth, 2 * tenth);
  return grown / static_cast<double>(end - 2 * tenth);
}

struct Soak {
  // After each step, per image size.
  std::map<std::int64_t, std::vector<std::int64_t>> live;
  std::map<std::int64_t, std::vector<std::size_t>> in_arena;
  std::vector<double> heap;
  std::vector<double> resident;
  std::int64_t num_replayed_ops = 0;
};

void step(models::ResNet& model, Region& region, torch::optim::Optimizer& optimizer,
          const at::Tensor& images) {
  optimizer.zero_grad();
  auto logits = region.run([&] { return model->forward(images); });
  torch::nll_loss(torch::log_softmax(logits, 1), torch::arange(images.size(0))).backward();
  optimizer.step();
}

Soak soak(models::ResNet& model, Region& region, int steps) {
  static constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
      {4, 32}, {2, 48}, {6, 32}, {3, 40}};  // images and their size
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  Soak result;
  for (auto* bytes : {&result.heap, &result.resident}) bytes->reserve(steps);
  for (const auto& [batch, size] : kShapes) result.live[batch * size].reserve(steps);
  for (int i = 0; i < steps; ++i) {
    const auto [batch, size] = kShapes[i % 4];
    step(model, region, optimizer, torch::randn({batch, 3, size, size}));
    result.live[batch * size].push_back(live_bytes());
    result.heap.push_back(heap_bytes());
    result.resident.push_back(resident_bytes());
    result.in_arena[batch * size].push_back(arena::HostArena::of_process().bytes_in_use());
    result.num_replayed_ops += region.last_step().num_replayed_ops;
  }
  return result;
}

class Soaked : public LiveMemory {};

TEST_F(Soaked, M13MemoryOfAResNetIsFlatOverAlternatingShapes) {
  auto model = models::resnet18(10);
  Region region({.max_overhead = 0.02, .cost = plan::CostModel::flops});
  const auto result = soak(model, region, num_steps());

  for (const auto& [shape, bytes] : result.live) {
    for (const auto live : bytes) EXPECT_EQ(live, result.live.begin()->second.back()) << shape;
  }
  for (const auto& [shape, bytes] : result.in_arena) {
    for (const auto in_use : bytes) EXPECT_EQ(in_use, bytes.back()) << shape;
  }
  EXPECT_EQ(region.num_plans(), 4);
  EXPECT_GT(result.num_replayed_ops, num_steps());
  std::cout << num_steps() << " steps, bytes per step: heap " << slope(result.heap)
            << ", resident set " << slope(result.resident) << " of " << result.resident.back()
            << '\n';
  if (!kOwnMalloc) GTEST_SKIP() << "live bytes alone were compared: a sanitizer owns the heap";
  EXPECT_LT(slope(result.heap), kMaxBytesPerStep);
  EXPECT_LT(slope(result.resident), kMaxResidentBytesPerStep);
}

}  // namespace
}  // namespace gradrecomp::test
