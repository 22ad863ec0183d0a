// Conformance H9: steps of several op sequences, in any order.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/steps/budget.h"
#include "hazards/steps/layers.h"
#include "hazards/steps/step_count.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;

TEST(Sequences, H9BlocksOfOneModelInOneRegionEachGetTheirPlan) {
  std::vector<nn::Sequential> blocks;
  for (const int depth : {2, 3, 4}) blocks.push_back(layers(depth));
  Region region(kBudget);
  Count count;
  for (int step = 0; step < 10; ++step) {
    auto h = torch::randn({8, 24});
    for (auto& block : blocks) {
      block->zero_grad();
      h = region.run([&] { return block->forward(h); });
      count.add(region.last_step());
    }
    h.sum().backward();
  }
  EXPECT_EQ(region.num_plans(), 3);
  EXPECT_LE(count.profiled, 4);
  EXPECT_GE(count.followed, count.steps - 6);
}

// In how many pieces a tensor is cut is a number, which may change from step to step.
TEST(Sequences, H9WithFewerResultsAndMoreInputsThanBefore) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::randn({2, 8}).requires_grad_();
    const auto x = torch::randn({4, 8});
    Tensors all;
    for (int step = 0; step < 8; ++step) {
      const auto given = torch::randn({2, 8});
      const auto y = run([&] {
        const auto pieces = at::split_copy(x, step < 4 ? 2 : 4);
        const auto from = step < 4 ? pieces[1] : given;
        return (from.mul(0.3).sin() * weight).tanh();
      });
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Steps that give one tensor now as one argument of an operator, now as another.
void expect_two_sequences(
    const std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight, bool is_other)>&
        op) {
  expect_same_in_every_mode([&](const RunPart& run) {
    const auto weight = torch::randn({8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 8; ++step) {
      const auto x = torch::randn({16, 8});
      run([&] { return op(x * 2, weight, step % 2 == 1).tanh().pow(2); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  });
  Region region({.policy = "drop_all"});
  const auto weight = torch::randn({8}).requires_grad_();
  for (int step = 0; step < 12; ++step) {
    const auto x = torch::randn({16, 8});
    region.run([&] { return op(x * 2, weight, step % 2 == 1).tanh(); }).sum().backward();
    weight.mutable_grad() = at::Tensor();
  }
  EXPECT_EQ(region.num_plans(), 2);
}

// What was found of a norm with a weight does not hold for one with a bias.
TEST(Sequences, H9AreOthersWhereAnArgumentIsAnother) {
  expect_two_sequences([](const at::Tensor& x, const at::Tensor& weight, bool is_other) {
    const auto none = std::optional<at::Tensor>();
    return is_other ? at::layer_norm(x, {8}, none, weight) : at::layer_norm(x, {8}, weight, none);
  });
}

TEST(Sequences, H9AreOthersWhereAnElementOfAListIsAnother) {
  const auto positions = torch::arange(8);
  expect_two_sequences([&](const at::Tensor& x, const at::Tensor& weight, bool is_other) {
    const auto square = x.narrow(0, 0, 8) * weight;
    const c10::List<std::optional<at::Tensor>> rows({positions, std::nullopt});
    const c10::List<std::optional<at::Tensor>> columns({std::nullopt, positions});
    return at::index(square, is_other ? columns : rows);
  });
}

TEST(Sequences, H9MicroBatchesInFlightEachGetTheirPlan) {
  for (const std::int64_t other : {32, 40}) {
    auto model = layers(4);
    Region region({.policy = "every_1"});
    Count count;
    for (int step = 0; step < 10; ++step) {
      Tensors losses;
      for (const std::int64_t batch : {std::int64_t{32}, other}) {
        losses.push_back(region.run([&] {
                                 return model->forward(torch::randn({batch, 24}));
                               })
                             .sum());
        count.add(region.last_step());
      }
      model->zero_grad();
      for (auto& loss : losses) loss.backward();
      model->zero_grad();
    }
    EXPECT_LE(count.profiled, 4);
    EXPECT_GE(count.followed, count.steps - 6);
  }
}

// One sequence in nine, as the last micro-batch of an accumulated step may be.
TEST(Sequences, H9ARareSequenceIsProfiledInTheEnd) {
  auto model = layers(3);
  const auto more = [&](const at::Tensor& y) { return torch::sigmoid(y).mul(2); };
  Region region(kBudget);
  Count last_half;
  for (int step = 0; step < 20 * 9; ++step) {
    model->zero_grad();
    region
        .run([&] {
          const auto y = model->forward(torch::randn({8, 24}));
          return step % 9 == 8 ? more(y) : y;
        })
        .sum()
        .backward();
    if (step < 10 * 9) continue;
    last_half.add(region.last_step());
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_EQ(last_half.profiled, 0);
  EXPECT_EQ(last_half.followed, last_half.steps);
}

TEST(Sequences, H9ThatNeverComeAgainAreNotProfiledForEver) {
  Region region(kBudget);
  int profiled = 0;
  const WarningLog log;
  auto weight = torch::randn({16, 16}).requires_grad_();
  for (int step = 0; step < 60; ++step) {
    const auto y = region.run([&] {
      auto h = torch::randn({4, 16}).mm(weight);
      for (int i = 0; i < 8; ++i) h = (step >> i) % 2 == 0 ? h.sin() : h.tanh();
      return h;
    });
    y.sum().backward();
    weight.mutable_grad() = at::Tensor();
    if (step >= 20) profiled += region.last_step().profiled ? 1 : 0;
  }
  EXPECT_LE(profiled, 4);
  EXPECT_THAT(log.text(), HasSubstr("followed no plan for 20 steps"));
}

/// A log whose lock is held while another thread asks a region, as a monitor may hold it.
class AskingLog final : public c10::WarningHandler {
 public:
  explicit AskingLog(const Region& region) : region_(region) {}
  void process(const c10::Warning& /*warning*/) override {
    asked.push_back(std::async(std::launch::async, [this] { return region_.last_step().num_ops; }));
    was_answered = asked.back().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
    throw std::runtime_error("the log is full");
  }

  std::vector<std::future<std::int64_t>> asked;
  bool was_answered = false;

 private:
  const Region& region_;
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// A handler of warnings may wait for who asks the region, and throw. No step is under way then.
TEST(Sequences, H16AreWarnedOfWithoutALock) {
  Region region(kBudget);
  AskingLog log(region);
  auto weight = torch::randn({16, 16}).requires_grad_();
  int num_returned = 0;
  int num_thrown = 0;
  for (int step = 0; step < 40; ++step) {
    try {
      const auto y = region.run([&] {
        auto h = torch::randn({4, 16}).mm(weight);
        for (int i = 0; i < 8; ++i) h = (step >> i) % 2 == 0 ? h.sin() : h.tanh();
        ++num_returned;
        return h;
      });
      y.sum().backward();
    } catch (const std::runtime_error&) {
      ++num_thrown;
    }
  }
  EXPECT_TRUE(log.was_answered);
  EXPECT_EQ(num_thrown, 1);
  EXPECT_EQ(num_returned, 39) << "what a body has returned is not lost";
}

/// Runs a region for as many steps as `order` is long, whose sequences begin alike and end by the
/// letters. Counts the last `num_counted` steps.
Count run_in_order(const std::string& order, std::size_t num_counted) {
  auto model = layers(3);
  Region region(kBudget);
  Count count;
  for (std::size_t step = 0; step < order.size(); ++step) {
    model->zero_grad();
    region
        .run([&] {
          auto y = model->forward(torch::randn({8, 24}));
          for (char letter = 'A'; letter < order[step]; ++letter) y = torch::sigmoid(y).mul(2);
          return y;
        })
        .sum()
        .backward();
    if (step + num_counted >= order.size()) count.add(region.last_step());
  }
  return count;
}

TEST(Sequences, H9ThatBeginAlikeAndComeInTurnAreForeseen) {
  for (const std::string cycle : {"AB", "AAAB", "AABBC", "AAAAAAAB", "ABACAB"}) {
    SCOPED_TRACE(cycle);
    std::string order;
    while (order.size() < 20 * cycle.size()) order += cycle;
    const Count last = run_in_order(order, 4 * cycle.size());
    EXPECT_EQ(last.followed, last.steps);
    EXPECT_EQ(last.profiled, 0);
  }
}

TEST(Sequences, H9OfThoseInNoOrderTheCommonOneIsForeseen) {
  std::mt19937 random(5);
  std::string order = "AAABAAAB";
  int num_rare = 0;
  constexpr std::size_t kCounted = 60;
  for (int step = 0; step < 120; ++step) {
    order += random() % 6 == 0 ? 'B' : 'A';
    if (step >= 120 - static_cast<int>(kCounted) && order.back() == 'B') ++num_rare;
  }
  const Count last = run_in_order(order, kCounted);
  ASSERT_GT(num_rare, 4);
  EXPECT_GE(last.followed + last.profiled, last.steps - 2 * num_rare);
}

// Its fourth miss has all steps profiled for a while, in which it comes.
TEST(Sequences, H9AreSoughtNoLongerThanUntilTheyHaveCome) {
  std::string order(200, 'A');
  for (const std::size_t step : {10, 31, 60, 108, 115}) order[step] = 'B';
  EXPECT_EQ(run_in_order(order, 200 - 109).profiled, 7);
  EXPECT_EQ(run_in_order(order, 200 - 116).profiled, 0);
}

TEST(Sequences, H9PredictedPeaksAreThoseOfOneStepHoweverManyAreInFlight) {
  auto model = layers(6, 64);
  const auto predicted = [&](int in_flight) {
    Region region({.policy = "every_1"});
    for (int step = 0; step < 3; ++step) {
      Tensors losses;
      for (int i = 0; i < in_flight; ++i) {
        losses.push_back(region.run([&] { return model->forward(torch::randn({32, 64})); }).sum());
      }
      for (auto& loss : losses) {
        loss.backward();
        model->zero_grad();
      }
    }
    return region.plan().predicted_plain_peak_bytes;
  };
  // The gradient of the first loss is made before backward has met any step.
  EXPECT_NEAR(predicted(1), predicted(4), sizeof(float));
}

// A step that leaves a plan may save what the plan dropped, because it would not be asked for, and
// may have written what that was made of.
TEST(Sequences, H9ThatBeginAlikeMayEachSaveWhatTheOtherDoesNot) {
  expect_same_or_error_in_every_mode(
      [](const RunPart& run) {
        auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
        Tensors all;
        for (int step = 0; step < 8; ++step) {
          const bool is_other = step >= 5;
          const auto x = torch::randn({8, 8});
          const auto y = run([&] {
            const auto made = x.exp().neg();
            auto h = weight.mm(weight).tanh();
            if (is_other) {
              std::fill_n(x.data_ptr<float>(), x.numel(), 0.25F);
              h = h * made;
            }
            return h.sin();
          });
          y.sum().backward();
          all.push_back(y.detach().clone());
          all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
        }
        return all;
      },
      {.least_num_same = 15});
}

/// Forward passes of one sequence in one region, with or without a backward pass.
struct Forward {
  nn::Sequential model = layers(3);
  Region region{kBudget};
  Count count;

  at::Tensor operator()() {
    model->zero_grad();
    auto y = region.run([&] { return model->forward(torch::randn({8, 24})); });
    count.add(region.last_step());
    return y;
  }
};

TEST(Sequences, H9WithoutABackwardAreNotProfiledForEver) {
  Forward forward;
  for (int i = 0; i < 10; ++i) forward();
  EXPECT_EQ(forward.count.profiled, 2);
  EXPECT_THAT(forward.region.last_step().reason, HasSubstr("no backward pass"));
  for (int i = 0; i < 4; ++i) forward().sum().backward();
  EXPECT_EQ(forward.count.profiled, 3);
  const StepReport last = forward.region.last_step();
  EXPECT_TRUE(last.followed_plan) << last.reason;
}

TEST(Sequences, H9BetweenWhichForwardPassesRunAloneArePlanned) {
  for (const int num_alone : {1, 3}) {
    Forward forward;
    for (int i = 0; i < 2; ++i) forward();
    for (int i = 0; i < 6; ++i) {
      forward().sum().backward();
      for (int k = 0; k < num_alone; ++k) forward();
    }
    EXPECT_EQ(forward.region.num_plans(), 1);
    const StepReport last = forward.region.last_step();
    EXPECT_TRUE(last.followed_plan) << last.reason;
    EXPECT_LE(forward.count.profiled, 3 + num_alone);
  }
}

TEST(Sequences, H9WhoseFirstBackwardPassesFailArePlannedStill) {
  auto model = layers(3);
  Region region(kBudget);
  for (int i = 0; i < 6; ++i) {
    model->zero_grad();
    auto y = region.run([&] { return model->forward(torch::randn({8, 24})); });
    if (i < 3) {
      // The last op has read what it saved by then, and so has asked the step.
      const auto first = model->parameters()[0];
      const auto hook = first.register_hook(
          [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no"); });
      EXPECT_THROW(y.sum().backward(), std::runtime_error);
      first.remove_hook(hook);
    } else {
      y.sum().backward();
    }
    if (i < 3) {
      EXPECT_TRUE(region.last_step().profiled) << region.last_step().reason;
    }
  }
  EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
}

}  // namespace
}  // namespace gradrecomp::test
