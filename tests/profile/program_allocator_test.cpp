// Conformance H29: a program may have an allocator of its own for the host's tensors.
#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <cstdlib>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/own_process.h"

namespace gradrecomp::test {
namespace {

std::int64_t num_live = 0;

/// The program's block, and what else it knows of it.
struct Own {
  void* block;
};

void free_block(void* block) {
  --num_live;
  std::free(block);
}

void free_own(void* context) {
  auto* own = static_cast<Own*>(context);
  free_block(own->block);
  delete own;
}

/// Blocks are aligned as malloc()'s, and no more.
class Malloc : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = std::malloc(bytes + 16);
    ++num_live;
    return {block, block, &free_block, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

/// The same without raw pointers, which c10::Allocator allows.
class WithContext final : public Malloc {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = std::malloc(bytes + 16);
    ++num_live;
    return {block, new Own{block}, &free_own, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
};

at::Tensor gradient_after(Region* region) {
  torch::manual_seed(3);
  const auto weight = torch::randn({24, 24}).requires_grad_();
  for (int step = 0; step < 4; ++step) {
    const auto body = [&] {
      return torch::dropout(weight.exp().tanh().mm(weight).sin(), 0.3, true);
    };
    (region != nullptr ? region->run(body) : body()).pow(2).sum().backward();
  }
  return weight.grad();
}

/// Fails unless steps give plain's bits, are counted, and give back all that they took.
void train_with(c10::Allocator* allocator, std::uint8_t priority) {
  c10::SetCPUAllocator(allocator, priority);
  const auto before = num_live;
  {
    const auto plain = gradient_after(nullptr);
    for (const char* policy : {"drop_all", "every_2"}) {
      Region region({.policy = policy});
      TORCH_CHECK(at::equal(plain, gradient_after(&region)), "other bits under ", policy);
      TORCH_CHECK(region.last_step().num_replayed_ops > 0, "nothing was replayed");
    }
    const MemoryMeter meter(c10::kCPU);
    const auto x = torch::empty({1000}, torch::kByte);
    TORCH_CHECK(meter.growth_bytes() == 1000, "counted ", meter.growth_bytes());
    TORCH_CHECK(num_live > before, "the program's allocator is passed over");
  }
  TORCH_CHECK(num_live == before, num_live - before, " blocks are left");
}

class ProgramAllocator : public OwnProcess {};

TEST_F(ProgramAllocator, H29MayAlignAsMallocDoes) {
  EXPECT_EXIT(exit_after([] { train_with(new Malloc, 0); }), testing::ExitedWithCode(0), "");
}

TEST_F(ProgramAllocator, H29MayFreeByAContext) {
  EXPECT_EXIT(exit_after([] { train_with(new WithContext, 0); }), testing::ExitedWithCode(0), "");
}

TEST_F(ProgramAllocator, H29MayBeLibTorchsForMobileDevices) {
  EXPECT_EXIT(exit_after([] {
                c10::SetCPUAllocator(c10::GetDefaultMobileCPUAllocator());
                const auto plain = gradient_after(nullptr);
                Region region({.policy = "drop_all"});
                TORCH_CHECK(at::equal(plain, gradient_after(&region)), "other bits");
              }),
              testing::ExitedWithCode(0), "");
}

TEST_F(ProgramAllocator, H29MayHaveBeenGivenAPriority) {
  EXPECT_EXIT(exit_after([] { train_with(new Malloc, 5); }), testing::ExitedWithCode(0), "");
}

// One that comes later with the priority of the one before takes its place, as without regions.
TEST_F(ProgramAllocator, H29MayBeReplacedByOneOfItsPriority) {
  EXPECT_EXIT(exit_after([] {
                c10::SetCPUAllocator(new Malloc, 5);
                install_cpu_counter();
                auto* later = new WithContext;
                c10::SetCPUAllocator(later, 4);
                TORCH_CHECK(c10::GetCPUAllocator() != later, "a lower priority came first");
                c10::SetCPUAllocator(later, 5);
                TORCH_CHECK(c10::GetCPUAllocator() == later, "an equal priority did not");
              }),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::test
