// Conformance H9, H10, H11, H12, H13, H14, H20: steps that come in several kinds and in any order.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/memory_meter.h"
#include "support/live_memory.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using ::testing::Not;

const Options kBudget{.max_overhead = 0.3, .cost = plan::CostModel::flops};

nn::Sequential layers(int count, std::int64_t width = 24) {
  nn::Sequential made;
  for (int i = 0; i < count; ++i) {
    made->push_back(nn::Linear(width, width));
    made->push_back(nn::GELU());
  }
  return made;
}

/// How often a region profiled and followed.
struct Count {
  int steps = 0;
  int profiled = 0;
  int followed = 0;

  void add(const StepReport& report) {
    ++steps;
    profiled += report.profiled ? 1 : 0;
    followed += report.followed_plan ? 1 : 0;
  }
};

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
      "GradRecomp");
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

TEST(Outputs, H10CapturedOnesAreAsGoodAsReturnedOnes) {
  auto model = layers(6, 64);
  for (const bool scope : {false, true}) {
    Region region(kBudget);
    for (int step = 0; step < 3; ++step) {
      at::Tensor y;
      const auto x = torch::randn({512, 64});
      if (scope) {
        auto open = region.open();
        y = model->forward(x);
        open.close();
      } else {
        region.run([&] { y = model->forward(x); });
      }
      model->zero_grad();
      y.sum().backward();
    }
    EXPECT_TRUE(region.has_plan());
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    EXPECT_GT(region.last_step().num_replayed_ops, 0);
  }
}

struct Outputs {
  at::Tensor a;
  std::map<std::string, at::Tensor> more;
  c10::IValue value;
};

TEST(Outputs, H10OfAnyTypeAreReturned) {
  auto model = layers(4);
  Region region(kBudget);
  for (int step = 0; step < 3; ++step) {
    model->zero_grad();
    auto outputs = region.run([&] {
      const auto y = model->forward(torch::randn({8, 24}));
      return Outputs{y, {{"sine", y.sin()}}, c10::IValue(y.exp())};
    });
    auto packed = region.run([&] {
      const auto y = model->forward(torch::randn({3, 2, 24}));
      return nn::utils::rnn::pack_padded_sequence(y, torch::tensor({3, 2}));
    });
    (outputs.a + outputs.more["sine"] + outputs.value.toTensor()).sum().backward();
    packed.data().sum().backward();
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_TRUE(region.last_step().followed_plan);
}

TEST(OpenStep, H10GivenUpOrClosedTwiceLeavesNothingBehind) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  {
    const auto given_up = region.open();
    static_cast<void>(x.sin());
  }
  auto step = region.open();
  const auto y = x.exp().sin();
  auto moved = std::move(step);
  moved.close();
  moved.close();
  step.close();
  const auto outside = x.cos();
  y.sum().backward();
  EXPECT_EQ(region.last_step().num_ops, 2);
}

TEST(OpenStep, H10ThatAnotherThreadClosesStaysOpenWhereItWasOpened) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  auto step = region.open();
  const auto y = x.exp();
  std::string message;
  std::thread([&] { message = message_of([&] { step.close(); }); }).join();
  EXPECT_THAT(message, HasSubstr("on another thread"));
  const auto z = y.sin();
  step.close();
  EXPECT_EQ(region.last_step().num_ops, 2);
  z.sum().backward();
  EXPECT_TRUE(region.has_plan());
}

TEST(OpenStep, H10ThatAnotherThreadDestroysLeavesBothThreadsUnharmed) {
  at::Tensor gradient;
  std::thread([&] {
    auto x = torch::ones({8}).requires_grad_();
    Region region({.policy = "drop_all"});
    auto step = std::make_unique<OpenStep>(region.open());
    auto y = x.exp();
    std::thread([&] {
      Region other({.policy = "drop_all"});
      other
          .run([&] {
            step.reset();
            return torch::ones({2}).requires_grad_().exp().sin();
          })
          .sum()
          .backward();
      EXPECT_EQ(other.last_step().num_ops, 2 + 1);  // with ones()
    }).join();
    const auto z = y.sin();  // not recorded any more
    EXPECT_TRUE(region.run([&] { return x.cos(); }).defined());
    EXPECT_EQ(region.last_step().num_ops, 1);
    z.sum().backward();
    gradient = x.grad();
  }).join();
  EXPECT_TRUE(
      torch::allclose(gradient, torch::full({8}, std::exp(1.0F) * std::cos(std::exp(1.0F)))));
}

TEST(Regions, H8MoveAndThrowOnceMovedFrom) {
  static_assert(!std::is_copy_constructible_v<Region> &&
                std::is_nothrow_move_constructible_v<Region>);
  Region region({.policy = "drop_all"});
  Region moved = std::move(region);
  moved.run([] { return torch::ones({2}).requires_grad_().exp(); }).sum().backward();
  EXPECT_TRUE(moved.has_plan());
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { region.run([] { return 1; }); }, [&] { static_cast<void>(region.plan()); },
           [&] { static_cast<void>(region.has_plan()); },
           [&] { static_cast<void>(region.last_step()); }}) {
    EXPECT_THAT(message_of(use), HasSubstr("moved from"));
  }
}

TEST(Regions, H8PlanOutlivesTheRegionThatMadeIt) {
  plan::Plan plan;
  {
    Region region({.policy = "drop_all"});
    region.run([] { return torch::ones({2}).requires_grad_().exp().sin(); }).sum().backward();
    plan = region.plan();
  }
  EXPECT_EQ(plan.policy, "drop_all");
}

TEST(ResizedOutputs, H11ArePlannedAndExact) {
  const auto out_of_nothing = [](const at::Tensor& h) {
    auto made = torch::empty({0});
    {
      const torch::NoGradGuard no_grad;
      at::mul_out(made, h, h);
    }
    return h * made;
  };
  const auto grown = [](const at::Tensor& h) {
    auto made = torch::zeros({4, 16});
    {
      const torch::NoGradGuard no_grad;
      made.resize_({8, 16});
      made.copy_(h);
    }
    return (h * made).sin();
  };
  const auto grown_with_content = [](const at::Tensor& h) {
    auto made = h.detach().slice(0, 0, 4).clone();
    {
      const torch::NoGradGuard no_grad;
      made.resize_({8, 16});
      made.slice(0, 4).copy_(h.slice(0, 4));
    }
    return (h * made).sin();
  };
  const auto shrunk = [](const at::Tensor& h) {
    auto made = h.detach().exp();
    made.resize_({2, 16});
    return h.slice(0, 0, 2) * made;
  };
  for (const auto& body : std::vector<std::function<at::Tensor(const at::Tensor&)>>{
           out_of_nothing, grown, grown_with_content, shrunk}) {
    nn::Linear layer(16, 16);
    const auto forward = [&](const at::Tensor& x) { return body(torch::tanh(layer(x))); };
    expect_same_in_every_mode([&](const RunPart& run) {
      Tensors all;
      for (int step = 0; step < 3; ++step) {
        const auto x = torch::randn({8, 16});
        run([&] { return forward(x); }).sum().backward();
        all.push_back(std::exchange(layer->weight.mutable_grad(), at::Tensor()));
        layer->zero_grad();
      }
      return all;
    });
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 2; ++step) {
      layer->zero_grad();
      MemoryMeter meter(c10::kCPU);
      const auto x = torch::randn({8, 16});
      region.run([&] { return forward(x); }).sum().backward();
    }
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  }
}

// What a resize takes away no plan can keep, whatever it says.
TEST(ResizedOutputs, H11ArePredictedUnderEveryPlan) {
  install_cpu_counter();
  nn::Linear layer(32, 32);
  const auto step = [&](Region& region) {
    layer->zero_grad();
    const auto x = torch::randn({32, 32});
    return peak_of([&] {
      const auto y = region.run([&] {
        const auto h = torch::tanh(layer(x));
        auto made = h.detach().slice(0, 0, 16).exp();
        made.resize_({32, 32});
        made.slice(0, 16).copy_(h.detach().slice(0, 16));
        return (h * made).sin();
      });
      return y.sum();
    });
  };
  Region profiled({.policy = "drop_all"});
  step(profiled);
  auto options = every_policy();
  plan::Plan everything{.policy = "given", .signature = profiled.graph().signature};
  everything.keep.assign(profiled.graph().values.size(), 1);
  options.push_back({.plan = std::make_shared<const plan::Plan>(everything)});
  for (const Options& each : options) {
    Region region(each);
    step(region);
    EXPECT_EQ(step(region), region.plan().predicted_peak_bytes) << region.brief_report();
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  }
}

TEST(ResizedOutputs, H11OfLayersArePlanned) {
  for (auto& layer : std::vector<nn::AnyModule>{
           nn::AnyModule(nn::CrossMapLRN2d(3)), nn::AnyModule(nn::LocalResponseNorm(3)),
           nn::AnyModule(nn::FractionalMaxPool2d(
               nn::FractionalMaxPool2dOptions(2).output_size(std::vector<std::int64_t>{4, 4})))}) {
    nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(3, 8, 3)));
    model->push_back(layer);
    model->push_back(nn::Tanh());
    expect_same_in_every_mode([&](const RunPart& run) {
      Tensors all;
      for (int step = 0; step < 3; ++step) {
        const auto x = torch::randn({2, 3, 12, 12});
        run([&] { return model->forward(x); }).pow(2).mean().backward();
        for (auto& p : model->parameters()) {
          all.push_back(std::exchange(p.mutable_grad(), at::Tensor()));
        }
      }
      return all;
    });
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      const auto x = torch::randn({2, 3, 12, 12});
      region.run([&] { return model->forward(x); }).sum().backward();
    }
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  }
}

TEST(OpenStep, H10ThatOutlivesItsThreadIsGivenUp) {
  auto weight = torch::randn({64, 64}).requires_grad_();
  const auto x = torch::randn({64, 64});
  Region region({.policy = "drop_all"});
  install_cpu_counter();
  std::int64_t after_first = 0;
  for (int step = 0; step < 6; ++step) {
    {
      std::optional<OpenStep> open;
      at::Tensor y;
      std::thread([&] {
        open.emplace(region.open());
        y = x.mm(weight).tanh().exp();
      }).join();
      EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
      open.reset();
      y.sum().backward();
    }
    if (step == 0) after_first = live_bytes();
  }
  EXPECT_EQ(live_bytes(), after_first);
}

TEST(OpenStep, H10ThatAnotherThreadDestroysRecordsNothingMore) {
  auto x = torch::randn({1000}).requires_grad_();
  Region region({.policy = "drop_all"});
  auto step = std::make_unique<OpenStep>(region.open());
  static_cast<void>(x.exp());
  std::thread([&] { step.reset(); }).join();
  install_cpu_counter();
  const auto before = live_bytes();
  for (int i = 0; i < 10; ++i) static_cast<void>(torch::zeros({1000}) * x);
  EXPECT_EQ(live_bytes(), before);
  region.run([&] { return x.exp().sin(); }).sum().backward();
  EXPECT_TRUE(region.has_plan());
}

TEST(Regions, H9KeepTheirPlanWhileForwardPassesRunAlone) {
  auto x = torch::randn({8}).requires_grad_();
  Region region(kBudget);
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return x.exp().sin().tanh(); }).sum().backward();
  }
  for (int step = 0; step < 4; ++step) region.run([&] { return x.cos().exp().sin(); });
  EXPECT_TRUE(region.has_plan());
  EXPECT_EQ(region.plan().keep.size(), region.graph().values.size());
}

TEST(Reports, AreNotOfAStepThatEndsLate) {
  auto x = torch::randn({8}).requires_grad_();
  Region region(kBudget);
  auto early = std::make_unique<OpenStep>(region.open());
  static_cast<void>(x.exp());
  std::thread([&] {
    region.run([&] { return x.exp().sin(); }).sum().backward();
    early.reset();
  }).join();
  begin_stage("whatever");  // here the early step is given up
  EXPECT_EQ(region.last_step().num_ops, 2);
}

TEST(InnerBackward, H12WithNothingLeftForLaterIsSaidToo) {
  const WarningLog log;
  auto weight = torch::randn({8, 8}).requires_grad_();
  const auto x = torch::randn({4, 8});
  Region region(kBudget);
  for (int step = 0; step < 4; ++step) {
    weight.mutable_grad() = at::Tensor();
    region.run([&] { x.mm(weight).sin().sum().backward(); });
  }
  EXPECT_THAT(region.last_step().reason, HasSubstr("runs inside the region"));
  EXPECT_THAT(region.brief_report(), HasSubstr("no plan: it cannot be planned"));
  EXPECT_EQ(log.messages.size(), 1U) << log.text();
}

TEST(InnerBackward, H12IsProfiledOnceAndSaidOnce) {
  const WarningLog log;
  auto weight = torch::randn({8, 8}).requires_grad_();
  Region region(kBudget);
  Count count;
  for (int step = 0; step < 6; ++step) {
    weight.mutable_grad() = at::Tensor();
    region
        .run([&] {
          const auto x = torch::randn({4, 8}).requires_grad_();
          const auto y = x.mm(weight).tanh().exp();
          const auto penalty = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
          return y.sum() + penalty.pow(2).sum();
        })
        .backward();
    count.add(region.last_step());
    SCOPED_TRACE(region.last_step().reason);
  }
  EXPECT_EQ(count.profiled, 1);
  EXPECT_THAT(region.last_step().reason, HasSubstr("cannot be planned"));
  EXPECT_THAT(region.brief_report(), HasSubstr("cannot be planned"));
  EXPECT_EQ(log.messages.size(), 1U) << log.text();
  EXPECT_THAT(log.text(), HasSubstr("runs inside the region"));
  EXPECT_THAT(log.text(), Not(HasSubstr("GradRecomp bug")));
}

TEST(InnerBackward, H12IsExact) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto data = torch::randn({4, 8});
      const auto loss = run([&] {
        const auto x = data.clone().requires_grad_();
        const auto y = x.mm(weight).tanh().exp();
        const auto penalty = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
        return y.sum() + penalty.pow(2).sum();
      });
      loss.backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  });
}

// What it made again is let go of by the first loss, and read again for the second.
TEST(InnerBackward, H12LeavesWhatItReplayedReplayable) {
  const auto losses = [](const at::Tensor& x) {
    const auto branches = [&] {
      const auto t = x.tanh();
      return Tensors{t * 1, x * t.detach().exp()};
    }();
    torch::autograd::grad({branches[0].sum()}, {x}, {}, /*retain_graph=*/true);
    return branches;
  };
  const auto gradient = [&](bool wrapped) {
    const auto x = torch::linspace(-1, 1, 8).requires_grad_();
    const auto made = wrapped ? detail::run_dropped([&] { return losses(x); }) : losses(x);
    for (const auto& loss : made) loss.sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(same_bits(gradient(false), gradient(true)));
}

TEST(Selection, H13ThatALaterSequenceDoesNotHaveIsAWarning) {
  const WarningLog log;
  nn::Linear a(8, 8);
  Options options = kBudget;
  options.selection.keep_ops = {"aten::gelu"};
  Region region(options);
  for (int step = 0; step < 7; ++step) {
    a->zero_grad();
    const auto y = region.run([&] {
      auto h = a(torch::randn({4, 8}));
      if (step < 2) h = torch::gelu(h);
      return h.tanh();
    });
    EXPECT_NO_THROW(y.sum().backward()) << "step " << step;
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_THAT(log.text(), HasSubstr("Options::selection"));
}

TEST(Selection, H13ThatTheFirstSequenceDoesNotHaveIsAnError) {
  Options options = kBudget;
  options.selection.keep_ops = {"aten::misspelled"};
  Region region(options);
  const auto y = region.run([] { return torch::ones({2}).requires_grad_().exp().sin(); });
  try {
    y.sum().backward();
    ADD_FAILURE() << "not found";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Options::selection: keep_ops is \"aten::misspelled\""));
  }
}

TEST(Gradients, H14ThatExistOrNotAreSequencesOfTheirOwn) {
  auto model = layers(4, 64);
  Region region({.policy = "drop_all"});
  const auto measured = [&](bool keeps_gradients) {
    model->zero_grad(!keeps_gradients);
    const auto x = torch::randn({16, 64});
    MemoryMeter meter(c10::kCPU);
    region.run([&] { return model->forward(x); }).sum().backward();
    return meter.measured_peak_bytes();
  };
  for (const bool keeps : {false, false, true, true, true, false, true}) {
    const auto peak = measured(keeps);
    if (region.last_step().followed_plan) {
      EXPECT_EQ(peak, region.plan().predicted_peak_bytes) << (keeps ? "kept" : "none");
    }
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_TRUE(region.last_step().followed_plan);
}

TEST(Gradients, H14OfALeafThatOpsReadByItsViewsCountToo) {
  auto weight = torch::randn({64, 64}).requires_grad_();
  Region region({.policy = "drop_all"});
  int num_followed = 0;
  for (const bool keeps : {false, false, true, true, true, false, true}) {
    if (keeps && weight.grad().defined()) {
      weight.mutable_grad().zero_();
    } else {
      weight.mutable_grad() = keeps ? torch::zeros({64, 64}) : at::Tensor();
    }
    const auto x = torch::randn({2, 64});
    const MemoryMeter meter(c10::kCPU);
    region.run([&] { return x.mm(weight.view({64, 64}).t()).tanh().exp(); }).sum().backward();
    if (!region.last_step().followed_plan) continue;
    ++num_followed;
    EXPECT_EQ(meter.measured_peak_bytes(), region.plan().predicted_peak_bytes)
        << (keeps ? "kept" : "none");
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_GE(num_followed, 3);
}

TEST(Plans, H20BeyondTheMostAreMadeAgainWithoutAProfile) {
  auto model = layers(3);
  Region region({.policy = "drop_all", .max_plans = 2});
  int profiled = 0;
  for (int round = 0; round < 4; ++round) {
    for (const std::int64_t batch : {2, 3, 4, 5}) {
      model->zero_grad();
      region.run([&] { return model->forward(torch::randn({batch, 24})); }).sum().backward();
      profiled += region.last_step().profiled ? 1 : 0;
      if (round > 0) {
        EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
      }
      EXPECT_LE(region.num_plans(), 2);
    }
  }
  EXPECT_EQ(profiled, 4);
}

TEST(Reasons, AreSaidOfEachStepThatFollowsNoPlan) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto body = [&] { return x.exp().sin(); };
  region.run(body).sum().backward();
  EXPECT_THAT(region.last_step().reason, HasSubstr("profiled"));
  x.mutable_grad() = at::Tensor();
  region.run(body).sum().backward();
  EXPECT_EQ(region.last_step().reason, "");
  {
    const torch::NoGradGuard no_grad;
    region.run(body);
  }
  EXPECT_THAT(region.last_step().reason, HasSubstr("gradients are off"));
  detail::run_dropped([&] { return region.run(body); });
  EXPECT_THAT(region.last_step().reason, HasSubstr("around it covers it"));
  EXPECT_THAT(region.brief_report(), HasSubstr("around it covers it"));
  x.mutable_grad() = at::Tensor();
  region.run([&] { return x.exp().sin().cos(); });
  EXPECT_THAT(region.last_step().reason, HasSubstr("is new"));
  Region empty;
  empty.run([&] { return x; });
  EXPECT_THAT(empty.last_step().reason, HasSubstr("no operator"));
  for (int step = 0; step < 2; ++step) empty.run([&] { return x.detach() + 1; });
  EXPECT_THAT(empty.last_step().reason, HasSubstr("nothing in it is saved"));
}

TEST(Reasons, AreSaidOfAStepThatIsGivenUpAndItsProfileIsMadeByTheNext) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  EXPECT_THROW(region.run([&]() -> at::Tensor {
    static_cast<void>(x.exp());
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
  auto step = region.open();
  static_cast<void>(x.exp());
  step = region.open();
  EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
}

TEST(Reasons, TellOfAnOpenStepOfTheSameRegion) {
  Region region({.policy = "drop_all"});
  const auto step = region.open();
  const auto another = region.open();
  EXPECT_THAT(region.last_step().reason, HasSubstr("close() it before"));
}

TEST(Reports, AreOfOneStepThoughAnotherGoesBackward) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto body = [&] { return x.exp().sin(); };
  for (int step = 0; step < 2; ++step) {
    x.mutable_grad() = at::Tensor();
    region.run(body).sum().backward();
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  x.mutable_grad() = at::Tensor();
  const auto y = region.run(body);
  {
    const torch::NoGradGuard no_grad;
    region.run(body);
  }
  y.sum().backward();
  EXPECT_EQ(region.last_step().num_replayed_ops, 0);
}

TEST(Reports, NameTheFirstStageOfEverySequence) {
  CheckpointedSequential net(layers(2), Options{.policy = "drop_all"});
  for (const std::int64_t batch : {4, 4, 8}) {
    net->zero_grad();
    net->forward(torch::randn({batch, 24})).sum().backward();
    EXPECT_EQ(net->region().graph().stages.front().name, "0");
    EXPECT_EQ(net->region().graph().stages.size(), 4);
  }
  EXPECT_EQ(net->region().num_plans(), 2);
}

TEST(Reports, CountWhatRunsBeforeTheFirstStageForNone) {
  auto x = torch::randn({8}).requires_grad_();
  Region region({.policy = "drop_all"});
  region
      .run([&] {
        const auto y = x.exp();
        begin_stage("sine");
        return y.sin();
      })
      .sum()
      .backward();
  const auto rows = stage_rows(region.graph(), region.plan());
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[1].name, "sine");
  EXPECT_GT(rows[0].saved_bytes, 0);
}

}  // namespace
}  // namespace gradrecomp::test
