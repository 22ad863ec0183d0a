// Conformance H1: memory of the program's that tensors borrow.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

void churn() {
  std::vector<std::vector<float>> rubbish;
  for (int i = 0; i < 64; ++i) rubbish.emplace_back(4096, 1e6F);
}

std::vector<float> weights_of(std::int64_t count, int step) {
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.5F + 0.001F * static_cast<float>((i * (step + 1)) % 7);
  }
  return weights;
}

TEST(BorrowedMemory, H1MayDieAsSoonAsItHasBeenCopied) {
  // The larger vector goes back to the system, so that reading it again would crash.
  for (const std::int64_t width : {16, 512}) {
    expect_same_in_every_mode(steps_of(width, [](Layers& layers, const at::Tensor& x, int step) {
      at::Tensor weights;
      {
        auto numbers = weights_of(x.numel(), step);
        weights = torch::from_blob(numbers.data(), x.sizes()).clone();
      }
      churn();
      return layers.b(torch::tanh(layers.a(x)) * weights);
    }));
  }
}

TEST(BorrowedMemory, H1MayBeFilledAgainForTheNextBatch) {
  std::vector<double> buffer(16 * 16);
  const auto body = [&](Layers& layers, const at::Tensor& x, int step) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<double>(i % (step + 3));
    const auto numbers = torch::from_blob(buffer.data(), {16, 16}, torch::kDouble);
    return layers.b(torch::tanh(layers.a(x)) * numbers.to(torch::kFloat).sin());
  };
  const auto refill = [&](Layers&, at::Tensor&) { std::ranges::fill(buffer, 1e9); };
  expect_same_in_every_mode(steps_of(16, body, refill));
}

TEST(BorrowedMemory, H1WithADeleterThatDoesNothingMayDieToo) {
  expect_same_in_every_mode(steps_of(64, [](Layers& layers, const at::Tensor& x, int step) {
    at::Tensor weights;
    {
      auto numbers = weights_of(x.numel(), step);
      weights = torch::from_blob(numbers.data(), x.sizes(), [](void*) {}).exp();
    }
    churn();
    return layers.b(torch::tanh(layers.a(x)) * weights);
  }));
}

/// Addresses of which only the first part is there to be read.
class PartlyOpen {
 public:
  static constexpr std::size_t kBytes = std::size_t{32} << 20;
  static constexpr std::size_t kOpenBytes = std::size_t{1} << 20;

  PartlyOpen()
      : begin_(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_EQ(mprotect(begin_, kOpenBytes, PROT_READ | PROT_WRITE), 0);
    auto* numbers = static_cast<float*>(begin_);
    for (std::size_t i = 0; i < kOpenBytes / sizeof(float); ++i) {
      numbers[i] = 0.5F + 0.001F * static_cast<float>(i % 97);
    }
  }
  ~PartlyOpen() { munmap(begin_, kBytes); }
  PartlyOpen(const PartlyOpen&) = delete;
  PartlyOpen& operator=(const PartlyOpen&) = delete;

  [[nodiscard]] at::Tensor rows() const {
    return torch::from_blob(begin_, {kBytes / (16 * sizeof(float)), 16});
  }

 private:
  void* begin_;
};

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("borrowed_doubled(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("borrowed_doubled", [](const at::Tensor& x) { return x * 2; });
}

// As of a data set that is mapped and read batch by batch.
TEST(BorrowedMemory, H1BesideWhatIsReadNeedNotBeThere) {
  const PartlyOpen memory;
  const at::Tensor rows = memory.rows();
  expect_same_in_every_mode(steps_of(16, [&](Layers& layers, const at::Tensor& x, int step) {
    const auto batch = rows.narrow(0, 16 * step, x.size(0));
    const auto overlapping = rows.narrow(0, 16 * step + 3, x.size(0));
    const auto strided = rows.slice(0, step, rows.size(0), 1024).narrow(0, 0, 8).sum(0);
    const auto doubled =
        call_boxed("borrowed_doubled", {rows.narrow(0, 16 * step + 40, x.size(0))});
    return layers.b(torch::tanh(layers.a(x) * batch) * overlapping.sin() + strided.cos() * doubled);
  }));
}

// The first backward pass lets go of all that autograd holds of it, and replays of the second read
// other rows.
TEST(BorrowedMemory, H1BesideWhatReplaysReadNeedNotBeThereWhenItIsCopied) {
  const PartlyOpen memory;
  const at::Tensor rows = memory.rows();
  expect_same_in_every_mode([&](const RunPart& run) {
    auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      at::Tensor scaled;
      const auto other = run([&] {
        scaled = rows.narrow(0, 16 * step, 16) * weight;
        const auto strided = rows.slice(0, step, rows.size(0), 1024).narrow(0, 0, 8).t();
        return (strided.narrow(1, 0, 1) + strided.sum() + rows.narrow(0, 64, 16) + weight).exp();
      });
      scaled.sum().backward();
      other.sin().sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

TEST(BorrowedMemory, H1WeightsInItAreReplayedFrom) {
  std::vector<float> numbers(64 * 64, 0.125F);
  auto weight = torch::from_blob(numbers.data(), {64, 64}).requires_grad_();
  const auto x = torch::randn({8, 64});
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return x.mm(weight).tanh().exp().sin(); }).sum().backward();
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

// From borrowed memory nothing is made again, so a step that reads it has other ops than one that
// does not: normalisations are recorded whole.
TEST(BorrowedMemory, H1InSomeStepsAloneLeavesOthersRight) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    std::vector<float> buffer(32 * 64);
    const auto program = [&](const RunPart& run) {
      auto weight = (torch::randn({64, 64}) * 0.1).to(type).requires_grad_();
      auto gain = torch::randn({64}).to(type).requires_grad_();
      auto bias = torch::randn({64}).to(type).requires_grad_();
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        auto x = torch::randn({32, 64});
        if (step == 0) {
          std::memcpy(buffer.data(), x.data_ptr(), x.nbytes());
          x = torch::from_blob(buffer.data(), {32, 64});
        }
        const auto y = run([&] {
          const auto h = torch::layer_norm(x, {64}).to(type).mm(weight);
          return torch::relu(torch::layer_norm(h, {64}, gain, bias))
              .mul(0.3)
              .add(0.7)
              .mm(weight)
              .sin();
        });
        y.sum().backward();
        for (auto* parameter : {&weight, &gain, &bias}) {
          all.push_back(std::exchange(parameter->mutable_grad(), at::Tensor()));
        }
      }
      return all;
    };
    expect_same_in_every_mode(program);
  }
}

constexpr std::int64_t kWidth = 128;
constexpr std::size_t kMappedBytes = kWidth * kWidth * sizeof(float);

/// Multiplies by lent memory, which it gives back as soon as its backward pass has read it.
struct ScaleOnce : torch::autograd::Function<ScaleOnce> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& lent,
                            const at::Tensor& x) {
    context->save_for_backward({lent});
    context->saved_data["address"] = reinterpret_cast<std::int64_t>(lent.data_ptr());
    return x * lent;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    auto gradient = gradients[0] * context->get_saved_variables()[0];
    munmap(reinterpret_cast<void*>(context->saved_data["address"].toInt()), kMappedBytes);
    return {at::Tensor(), gradient};
  }
};

TEST(BorrowedMemory, H1GivenBackByTheNodeThatReadsItLastIsReplayedFrom) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({kWidth, kWidth}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      void* const memory =
          mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      std::fill_n(static_cast<float*>(memory), kWidth * kWidth, 0.25F * (step + 1));
      at::Tensor scaled;
      const auto other = run([&] {
        const auto lent = torch::from_blob(memory, {kWidth, kWidth});
        scaled = ScaleOnce::apply(lent, weight);
        return (lent + weight).exp().sin();
      });
      scaled.sum().backward();
      other.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Two pages, of which each can be taken away.
class TwoPages {
 public:
  static constexpr std::int64_t kNumbers = 1024;
  static constexpr std::size_t kBytes = kNumbers * sizeof(float);

  TwoPages()
      : begin_(mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0)) {
    both().uniform_(0.5, 1.5);
  }
  ~TwoPages() { munmap(begin_, 2 * kBytes); }
  TwoPages(const TwoPages&) = delete;
  TwoPages& operator=(const TwoPages&) = delete;

  [[nodiscard]] at::Tensor both() const { return torch::from_blob(begin_, {2, kNumbers}); }
  void take_away(int page) {
    EXPECT_EQ(mprotect(static_cast<char*>(begin_) + page * kBytes, kBytes, PROT_NONE), 0);
  }

 private:
  void* begin_;
};

/// Backward reads the first page alone, from which it follows nothing about the other.
TEST(BorrowedMemory, H1OfWhichAutogradSavedAnotherPartMayBeGone) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = torch::randn({TwoPages::kNumbers}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      TwoPages pages;
      const auto y = run([&] {
        const auto blob = pages.both();
        const auto saved = (blob[0] * weight).sin();
        const auto other = (blob[1] + weight).exp();
        return torch::tanh(saved * other);
      });
      pages.take_away(1);
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

TEST(BorrowedMemory, H1IsCopiedPartByPartAsHandlesLetGoOfIt) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = torch::randn({TwoPages::kNumbers}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      TwoPages pages;
      at::Tensor first;
      const auto second = run([&] {
        const auto blob = pages.both();
        first = (blob[0] * weight).sin();
        const auto from_first = (blob[0] + weight).exp();
        return torch::tanh(from_first * (blob[1] * weight));
      });
      first.sum().backward();
      pages.take_away(0);
      second.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Buffers that come back as soon as no tensor shows them.
class SlotPool {
 public:
  SlotPool() : free_({torch::rand({4, 8}), torch::rand({4, 8})}) {}
  at::Tensor next() {
    TORCH_CHECK(!free_.empty(), "a loader would wait here for good");
    const at::Tensor slot = free_.back();
    free_.pop_back();
    return torch::from_blob(
        slot.data_ptr(), slot.sizes(), [this, slot](void*) { free_.push_back(slot); },
        torch::kFloat);
  }

 private:
  std::vector<at::Tensor> free_;
};

TEST(BorrowedMemory, H1GoesBackAsSoonAsTheProgramLetsGoOfIt) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = torch::randn({8, 8}).requires_grad_();
    SlotPool pool;
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto y = run([&] {
        at::Tensor sum = torch::zeros({4, 8});
        for (int batch = 0; batch < 5; ++batch) {
          const auto x = pool.next() * 2;
          sum = sum + torch::gelu(x.mm(weight)).sin();
          pool.next().mul_(1.5);
        }
        return sum;
      });
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Lent floats that begin a few elements beyond an aligned address, as weights in a mapped file do.
class Misaligned {
 public:
  explicit Misaligned(std::int64_t shift) : shift_(shift) {}

  at::Tensor filled_like(const at::Tensor& numbers) {
    memory_ = torch::empty({numbers.numel() + shift_});
    float* const begin = memory_.data_ptr<float>() + shift_;
    std::memcpy(begin, numbers.const_data_ptr(), numbers.nbytes());
    return torch::from_blob(begin, numbers.sizes());
  }

 private:
  std::int64_t shift_;
  at::Tensor memory_;
};

/// For each place of memory within what is aligned; sums are of another order at some.
void expect_same_wherever_it_begins(
    const std::function<HostileProgram(std::int64_t shift)>& program) {
  for (const std::int64_t shift : {1, 2, 3, 5}) {
    SCOPED_TRACE(shift);
    expect_same_in_every_mode(program(shift));
  }
}

TEST(BorrowedMemory, H1CopiedForReplaysLiesLikeTheOriginal) {
  expect_same_wherever_it_begins([](std::int64_t shift) -> HostileProgram {
    return [=](const RunPart& run) {
      auto weight = torch::randn({130}).requires_grad_();
      Tensors all;
      for (int step = 0; step < 4; ++step) {
        Misaligned memory(shift);
        const auto matrix = memory.filled_like(torch::randn({130, 130}));
        const auto u = torch::randn({130});
        at::Tensor scaled;
        const auto other = run([&] {
          scaled = matrix * weight;
          return (weight * matrix.mv(u)).tanh();
        });
        scaled.sum().backward();
        other.sin().sum().backward();
        all.push_back(gradient_of(weight));
      }
      return all;
    };
  });
}

TEST(BorrowedMemory, H1OverwrittenInTheRegionIsCopiedToMemoryThatLiesLikeIt) {
  expect_same_wherever_it_begins([](std::int64_t shift) -> HostileProgram {
    return [=](const RunPart& run) {
      auto weight = torch::randn({130}).requires_grad_();
      Tensors all;
      for (int step = 0; step < 4; ++step) {
        Misaligned memory(shift);
        auto matrix = memory.filled_like(torch::randn({130, 130}));
        const auto u = torch::randn({130});
        const auto y = run([&] {
          const auto product = (weight * matrix.mv(u)).tanh();
          const torch::NoGradGuard no_grad;
          matrix.mul_(1.01);
          return product;
        });
        y.sin().sum().backward();
        all.push_back(gradient_of(weight));
      }
      return all;
    };
  });
}

// No node saves the weight, so its copy is read.
TEST(BorrowedMemory, H1SmallWeightsAreCopiedToMemoryThatLiesLikeTheirs) {
  for (const bool is_part : {false, true}) {
    expect_same_wherever_it_begins([=](std::int64_t shift) -> HostileProgram {
      return [=](const RunPart& run) {
        Misaligned memory(is_part ? 0 : shift);
        const auto all_numbers = memory.filled_like(torch::randn({900 + shift}));
        auto weight = all_numbers.narrow(0, is_part ? shift : 0, 900).view({30, 30}).detach();
        weight.requires_grad_();
        const auto u = torch::randn({1, 30});
        Tensors all;
        for (int step = 0; step < 4; ++step) {
          run([&] { return torch::linear(u, weight).exp().tanh(); }).sum().backward();
          all.push_back(gradient_of(weight));
        }
        return all;
      };
    });
  }
}

}  // namespace
}  // namespace gradrecomp::test
