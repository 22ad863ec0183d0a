#include "gradrecomp/checkpoint.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/memory_meter.h"
#include "support/live_memory.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

TEST(Checkpoint, SeveralInputsAndATupleOfOutputs) {
  auto x = torch::randn({3, 4}).requires_grad_();
  auto y = torch::randn({3, 4}).requires_grad_();
  const auto body = [](at::Tensor a, at::Tensor b) {
    return std::make_tuple(a.exp() * b.tanh(), std::vector<at::Tensor>{b.sin()}, 3);
  };
  const auto gradients = [&](auto outputs) {
    return torch::autograd::grad({std::get<0>(outputs).sum() + std::get<1>(outputs)[0].cos().sum()},
                                 {x, y});
  };
  const auto plain = gradients(body(x, y));
  auto outputs = checkpoint(body, x, y);
  EXPECT_EQ(std::get<2>(outputs), 3);
  const auto wrapped = gradients(outputs);
  EXPECT_TRUE(same_bits(plain[0], wrapped[0]));
  EXPECT_TRUE(same_bits(plain[1], wrapped[1]));
}

TEST(Checkpoint, RunsTheFunctionOnce) {
  auto x = torch::randn({4}).requires_grad_();
  int calls = 0;
  checkpoint(
      [&](at::Tensor z) {
        ++calls;
        return z.exp().sin().sum();
      },
      x)
      .backward();
  EXPECT_EQ(calls, 1);
}

TEST(Checkpoint, RetainsNothingOfTheInside) {
  install_cpu_counter();
  auto x = torch::randn({1024}).requires_grad_();
  const MemoryMeter meter(c10::kCPU);
  const auto y = checkpoint([](at::Tensor z) { return z.exp().sin().cos().sum(); }, x);
  EXPECT_EQ(meter.growth_bytes(), 4) << "the scalar output";
}

/// Counts the calls of LibTorch's operators on this thread.
class CallCounter {
 public:
  CallCounter() {
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
          ++num_calls;
          return nullptr;
        }));
    num_calls = 0;
  }
  ~CallCounter() { at::removeCallback(handle_); }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  static inline thread_local int num_calls = 0;

 private:
  at::CallbackHandle handle_;
};

// Autograd saves what is read from each state, but no state.
TEST(Checkpoint, GoesThroughAChainOfStatesOnce) {
  constexpr int kNumStates = 200;
  const auto input = torch::randn({kNumStates, 4}).requires_grad_();
  const auto y = checkpoint(
      [](const at::Tensor& x) {
        at::Tensor state = torch::zeros({4});
        std::vector<at::Tensor> read;
        for (int i = 0; i < kNumStates; ++i) {
          state = state * 0.9 + x[i];
          read.push_back(state.sigmoid());
        }
        return torch::stack(read).mean();
      },
      input);
  const CallCounter counter;
  y.backward();
  EXPECT_LT(CallCounter::num_calls, 40 * kNumStates);
}

TEST(CheckpointSequential, EqualsThePlainModelForEveryNumberOfSegments) {
  torch::manual_seed(2);
  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 8), nn::GELU(),
                       nn::Linear(8, 2));
  auto x = torch::randn({3, 4}).requires_grad_();
  const auto plain = torch::autograd::grad({model->forward(x).sin().sum()}, {x})[0];
  for (int segments = 1; segments <= 5; ++segments) {
    const auto y = checkpoint_sequential(model, segments, x);
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({y.sin().sum()}, {x})[0]));
  }
}

// Of the last segment, which is not checkpointed, each child's result stays.
TEST(CheckpointSequential, CutsIntoSegmentsOfNearlyEqualLength) {
  nn::Sequential model;
  for (int i = 0; i < 22; ++i) model->push_back(nn::Tanh());
  const auto x = torch::randn({1000}).requires_grad_();
  const auto retained = [&](int segments) {
    return retained_by([&] { return checkpoint_sequential(model, segments, x); });
  };
  EXPECT_LT(retained(8), retained(1));
}

TEST(CheckpointSequential, RefusesMoreSegmentsThanChildren) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh());
  try {
    checkpoint_sequential(model, 3, torch::randn({1, 4}));
    FAIL() << "nothing was thrown";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("segments is 3, but must be between 1 and"));
  }
}

}  // namespace
}  // namespace gradrecomp::test
