// Conformance H1, H3: tensors that are given other memory, and memory that is lent for a while.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>
#include <utility>

#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/modes.h"
#include "support/scarce_memory.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

at::Tensor small_weight() { return (torch::randn({8, 8}) * 0.3).requires_grad_(); }

/// Steps that run `body(x, weight, seen)` in the region. `seen` is given other memory before
/// backward.
HostileProgram steps_that_replace(
    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&, at::Tensor&)>& body) {
  return [=](const RunPart& run) {
    const auto weight = small_weight();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      at::Tensor seen;
      const auto y = run([&] { return body(x, weight, seen); });
      seen.set_data(torch::ones({8, 8}));
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

// Autograd saves an input as the tensor that it is.
TEST(ChangedMemory, H3OfAnInputOfAnOpIsWhatBackwardSees) {
  expect_same_in_every_mode(
      steps_that_replace([](const at::Tensor& x, const at::Tensor& weight, at::Tensor& seen) {
        seen = x.mm(weight);
        return (seen * weight).tanh();
      }));
}

// And a result as its memory, unless it is the input of another op, too.
TEST(ChangedMemory, H3OfAResultIsWhatOtherOpsSeeInBackward) {
  expect_same_in_every_mode(
      steps_that_replace([](const at::Tensor& x, const at::Tensor& weight, at::Tensor& seen) {
        seen = x.mm(weight).exp();
        return seen.sin();
      }));
}

TEST(ChangedMemory, H3OfAnInputThatDiesIsWhatBackwardSees) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = small_weight();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      at::Tensor x = torch::randn({8, 8});
      const auto y = run([&] { return (x * weight).sin(); });
      x.set_data(torch::ones({8, 8}));
      x.reset();
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Puts the elements of `tensor` into another block, as large as the one that its storage has.
void move_to_another_block(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  auto block = at::getCPUAllocator()->allocate(storage->nbytes());
  std::memcpy(block.get(), storage->data(), storage->nbytes());
  storage->set_data_ptr_noswap(std::move(block));
}

at::Tensor body_that_moves(const at::Tensor& x, const at::Tensor& weight) {
  const auto h = x.mm(weight).detach();
  const auto read_before = (weight + h).tanh();
  move_to_another_block(h);
  h.add_(1);
  return (read_before * h).tanh().mm(weight);
}

// The block that it had is dead before the op that writes.
TEST(ChangedMemory, H15OfAStorageInTheRegionIsPlanned) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = small_weight();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return body_that_moves(x, weight); }).sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
  Region region({.policy = "drop_all"});
  const auto weight = small_weight();
  for (int step = 0; step < kNumSteps; ++step) {
    region.run([&] { return body_that_moves(torch::randn({8, 8}), weight); }).sum().backward();
  }
  EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
}

/// Steps in which `one` saves memory that `another` has read. It is filled again after `one` is
/// done, when no node of the graph reads it any more.
HostileProgram steps_on_lent_memory(const std::function<void(at::Tensor& one)>& ends) {
  return [=](const RunPart& run) {
    const auto weight = small_weight();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      std::vector<float> numbers(64, 0.1F * static_cast<float>(step + 1));
      const auto x = torch::from_blob(numbers.data(), {8, 8});
      at::Tensor one;
      const auto another = run([&] {
        one = x * weight;
        return (x + weight).exp().sin();
      });
      ends(one);
      std::ranges::fill(numbers, 1e6F);
      another.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

TEST(LentMemory, H1MayBeFilledAgainWhenItsLastNodeHasRun) {
  expect_same_in_every_mode(steps_on_lent_memory([](at::Tensor& one) { one.sum().backward(); }));
}

TEST(LentMemory, H1ThatReplaysOutliveIsReportedAsCopied) {
  std::vector<float> numbers(64, 0.5F);
  const auto x = torch::from_blob(numbers.data(), {8, 8});
  const auto weight = small_weight();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    at::Tensor one;
    const auto another = region.run([&] {
      one = x * weight;
      return (x + weight).exp().sin();
    });
    one.sum().backward();
    another.sum().backward();
  }
  EXPECT_EQ(region.last_step().unplanned_bytes, x.nbytes());
}

TEST(LentMemory, H1WhoseResultsCannotBeMadeAgainIsReportedWithThoseHeld) {
  std::vector<float> numbers(64, 0.5F);
  const auto x = torch::from_blob(numbers.data(), {8, 8});
  const auto weight = small_weight();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < kNumSteps; ++step) {
    const bool is_last = step + 1 == kNumSteps;
    at::Tensor one, held;
    const auto another = region.run([&] {
      one = x * weight;
      const auto sum = x + weight;
      if (is_last) held = sum;  // which the plan knows nothing of
      return sum.exp().sin();
    });
    if (is_last) one.reset();
    another.sum().backward();
  }
  EXPECT_EQ(region.last_step().unplanned_bytes, x.nbytes());
}

TEST(LentMemory, H1MayBeFilledAgainWhenItsLastNodeIsGoneOrThatIsAnError) {
  expect_same_or_error_in_every_mode(steps_on_lent_memory([](at::Tensor& one) { one.reset(); }),
                                     {.text = "memory may have been freed", .least_num_same = 12});
}

/// Saves lent memory, and needs next to none in backward.
struct SavesLent : torch::autograd::Function<SavesLent> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& lent,
                            const at::Tensor& weight) {
    context->save_for_backward({lent});
    return weight * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {at::Tensor(), gradients[0] * 2};
  }
};

// The copy that replays then need cannot be made, and a destructor finds that out.
TEST(LentMemory, H1ThatThereIsNoMemoryToCopyIsAnErrorLater) {
  std::vector<float> numbers(4096, 0.5F);
  const auto x = torch::from_blob(numbers.data(), {64, 64});
  const auto weight = torch::ones({1}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (const bool is_scarce : {false, false, true, false}) {
    at::Tensor one;
    const auto another = region.run([&] {
      one = SavesLent::apply(x, weight);
      return (x + weight).exp().sin();
    });
    {
      const ScarceMemory memory(
          [&](std::size_t bytes) { return is_scarce && bytes >= x.nbytes(); });
      one.sum().backward();
    }
    const auto message = message_of([&] { another.sum().backward(); });
    EXPECT_EQ(message.find("memory may have been freed") != std::string::npos, is_scarce)
        << message;
  }
}

}  // namespace
}  // namespace gradrecomp::test
