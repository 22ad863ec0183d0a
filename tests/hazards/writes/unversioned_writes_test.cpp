// Conformance H3: writes that version counters do not count, to what replays read.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

TEST(UnversionedWrite, H3BetweenForwardAndBackwardIsPlainsOrAnError) {
  const auto body = [](Layers& layers, const at::Tensor& x, int) {
    return layers.b(torch::gelu(torch::tanh(layers.a(x)) * x));
  };
  struct Write {
    int least_num_same;
    std::function<void(Layers&, at::Tensor&)> write;
  };
  const std::vector<Write> writes = {
      {8, [](Layers&, at::Tensor& x) { x.data().zero_(); }},
      {8, [](Layers&, at::Tensor& x) { std::memset(x.data_ptr(), 0, 64); }},
      {24, [](Layers& layers, at::Tensor&) { layers.b->weight.data().add_(0.5); }},
      {15, [](Layers& layers, at::Tensor&) { layers.a->weight.data().mul_(2); }},
      {15, [](Layers& layers, at::Tensor&) { layers.a->bias.data().add_(1); }},
      {24,
       [](Layers& layers, at::Tensor&) {
         layers.b->weight.set_data(torch::ones({4, 24}));
       }},
      {24,
       [](Layers&, at::Tensor& x) {
         x.set_data(torch::ones({24, 24}));
       }},
      {24, [](Layers&, at::Tensor& x) { x = at::Tensor(); }}};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_or_error_in_every_mode(steps_of(24, body, writes[i].write),
                                       {.text = "was overwritten after the forward pass",
                                        .least_num_same = writes[i].least_num_same});
  }
}

// A plan whose replays do not read x does not look at it; what comes after the plan may read it.
TEST(UnversionedWrite, H3AfterAStepHasLeftItsPlanIsPlainsOrAnError) {
  for (const bool is_read_again : {false, true}) {
    SCOPED_TRACE(is_read_again);
    const auto program = [=](const RunPart& run) {
      auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
      Tensors all;
      for (int step = 0; step < 2 * kNumSteps; ++step) {
        const auto x = torch::randn({8, 8});
        const auto y = run([&] {
          const auto sum = (x + weight).sum();
          if (step < kNumSteps) return sum + weight.exp().sin().sum();
          const auto made = (x * weight).sin().sum();
          std::fill_n(x.data_ptr<float>(), x.numel(), 2.0F);
          return sum + (is_read_again ? made + (x + weight).sum() : made);
        });
        y.backward();
        all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 17});
  }
}

// What autograd saves of a branch is given back in some steps, so that nothing is made again from x
// there. Other steps part from them after the branch, or run the same ops and hold on to it.
TEST(UnversionedWrite, H3ToWhatOnlySomeStepsReplayFromIsPlainsOrAnError) {
  for (const bool is_held_outside : {false, true}) {
    SCOPED_TRACE(is_held_outside);
    const auto program = [=](const RunPart& run) {
      auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
      Tensors all;
      for (int step = 0; step < 2 * kNumSteps; ++step) {
        const bool is_wanted = step >= kNumSteps;
        const auto x = torch::randn({8, 8});
        at::Tensor held = torch::zeros({});
        const auto y = run([&] {
          const auto branch = (x * weight).sin().sum();
          if (is_wanted) std::fill_n(x.data_ptr<float>(), x.numel(), 2.0F);
          if (is_wanted && is_held_outside) held = branch;
          const auto rest = weight.exp();
          if (!is_wanted || is_held_outside) return rest.sin().sum();
          return branch + rest.cos().sum();
        });
        (y + held).backward();
        all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    expect_same_or_error_in_every_mode(
        program, {.text = "overwritten", .least_num_same = is_held_outside ? 10 : 2});
  }
}

TEST(UnversionedWrite, H3BetweenTwoBackwardPassesInTheRegionIsPlainsOrAnError) {
  const auto program = [](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] {
        const auto made = torch::full({8, 8}, 0.5).clone();
        const auto a = (weight * made.sin()).sum();
        const auto b = (weight * made.cos()).sum();
        const auto of_a = torch::autograd::grad({a}, {weight})[0];
        std::fill_n(made.data_ptr<float>(), made.numel(), 2.0F);
        const auto of_b = torch::autograd::grad({b}, {weight})[0];
        return (weight * (of_a + of_b)).sum();
      });
      y.backward();
      all.push_back(y.detach().clone());
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 4});
}

TEST(UnversionedWrite, H3AfterABackwardPassThatThrewIsPlainsOrAnError) {
  const auto program = [](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      bool throws = true;
      const auto y = run([&] {
        const auto a = (weight * x.sin()).sum();
        const auto later = weight * 1;  // whose backward comes before that of `a`
        later.register_hook([&](const at::Tensor&) {
          if (std::exchange(throws, false)) throw std::runtime_error("once");
        });
        return a + (later * x.cos()).sum();
      });
      EXPECT_THROW(y.backward({}, /*retain_graph=*/true), std::runtime_error);
      weight.mutable_grad() = at::Tensor();
      std::fill_n(x.data_ptr<float>(), x.numel(), 2.0F);
      y.backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 3});
}

// The nodes that hold it read what has become of it, but no replay may.
TEST(UnversionedWrite, H3ToWhatAReplayHasMadeAgainIsPlainsOrAnError) {
  const auto program = [](const RunPart& run) {
    auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({8, 8});
      at::Tensor made;
      const auto y = run([&] {
        made = torch::full({8, 8}, 0.5).clone();
        const auto h = x.mm(weight).tanh() * made;
        return h + weight.exp() * made.sin();
      });
      std::fill_n(made.data_ptr<float>(), made.numel(), 2.0F);
      y.pow(2).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(
      program, {.text = "without its version counter growing", .least_num_same = 20});
}

TEST(UnversionedWrite, H3ToWhatIsInHostMemoryTooIsPlains) {
  auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
  const auto gradient = [&](const RunPart& run, bool writes) {
    const auto x = torch::full({8, 8}, 0.3);
    at::Tensor made;
    const auto y = run([&] {
      made = torch::full({8, 8}, 0.5).clone();
      const auto h = x.mm(weight).tanh() * made;
      return h + weight.exp() * made.sin();
    });
    if (writes) std::fill_n(made.data_ptr<float>(), made.numel(), 2.0F);
    y.pow(2).sum().backward();
    return std::exchange(weight.mutable_grad(), at::Tensor());
  };
  const auto in = [](Region& region) {
    return [&region](const std::function<at::Tensor()>& part) { return region.run(part); };
  };
  const auto plainly = [](const std::function<at::Tensor()>& part) { return part(); };
  const Tensors expected = {gradient(plainly, false), gradient(plainly, true)};
  Region profiled({.policy = "drop_all"});
  gradient(in(profiled), false);
  const plan::Graph graph = profiled.graph();
  int num_offloaded = 0;
  for (plan::Index value = 0; value < std::ssize(graph.values); ++value) {
    const auto& facts = graph.values[value];
    if (facts.producer < 0 || facts.must_keep || facts.overwritten_by >= 0) continue;
    plan::Plan plan{.policy = "given", .signature = graph.signature};
    plan.keep.assign(graph.values.size(), 0);
    plan.keep[value] = 1;
    plan.offloads = {{.value = value, .leaves_after = facts.producer, .returns_at = -1}};
    Region region({.plan = std::make_shared<const plan::Plan>(plan)});
    for (const int writes : {0, 1, 0, 1}) {
      EXPECT_TRUE(torch::equal(expected[writes], gradient(in(region), writes == 1))) << value;
    }
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    num_offloaded += region.last_step().offloaded_bytes > 0 ? 1 : 0;
  }
  EXPECT_GE(num_offloaded, 3);
}

// A backward pass in the region replays too, and the region may write before it.
TEST(UnversionedWrite, H3BeforeABackwardInTheRegionIsPlainsOrAnError) {
  for (const int wrote_in : {0, 2}) {
    expect_same_or_error_in_every_mode(
        [=](const RunPart& run) {
          auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
          Tensors all;
          for (int step = 0; step < kNumSteps; ++step) {
            const auto x = torch::randn({8, 8});
            const auto y = run([&] {
              const auto h = weight.mm(weight).tanh() * x.exp();
              if (step >= wrote_in) std::fill_n(x.data_ptr<float>(), x.numel(), 0.25F);
              return weight * 3 + torch::autograd::grad({h.sum()}, {weight})[0];
            });
            y.pow(2).sum().backward();
            all.push_back(y.detach().clone());
            all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
          }
          return all;
        },
        {.least_num_same = wrote_in == 0 ? 17 : 10});
  }
}

TEST(UnversionedWrite, H3ToOneRowOrColumnOfALargeWeightIsSeen) {
  for (const bool column : {false, true}) {
    torch::manual_seed(3);
    torch::nn::Linear layer(700, 300);
    const auto x = torch::randn({5, 700});
    const auto y = detail::run_dropped([&] { return layer(x).tanh().exp(); });
    auto weight = layer->weight.data();
    (column ? weight.select(1, 123) : weight.select(0, 77)).add_(1);
    EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("was overwritten after"));
  }
}

TEST(UnversionedWrite, H3ToNarrowRowsAtRegularDistancesIsSeen) {
  const auto parameter = torch::randn({8}).requires_grad_();
  for (const std::int64_t period : {2, 3, 4, 5, 8, 16}) {
    for (std::int64_t phase = 0; phase < period; ++phase) {
      const auto x = torch::randn({8000, 8});
      const auto y = detail::run_dropped([&] { return (x + parameter).tanh().exp(); });
      x.data().slice(0, phase, std::nullopt, period).fill_(5);
      EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("was overwritten after"))
          << "row " << phase << " of each " << period;
    }
  }
}

TEST(UnversionedWrite, H3BetweenTwoReplaysOfOnePassIsAnError) {
  for (const bool by_hook : {false, true}) {
    const auto weight = torch::randn({80, 80}).requires_grad_();
    const auto p = torch::randn({256, 80}).requires_grad_();
    const auto q = torch::randn({256, 80}).requires_grad_();
    const auto x = torch::randn({256, 80});
    if (by_hook) weight.register_hook([&](const at::Tensor&) { weight.data().add_(1); });
    const auto y = detail::run_dropped([&] {
      const auto earlier = p * torch::sigmoid(x.mm(weight.detach()));
      const auto later = torch::sigmoid((x * 2).mm(weight.detach()));
      return earlier + (q * later).mm(weight);
    });
    const auto message = message_of([&] { y.sum().backward(); });
    EXPECT_EQ(message.find("was overwritten after") != std::string::npos, by_hook) << message;
  }
}

TEST(UnversionedWrite, H3SetDataOfWhatWasWrittenInTheRegionIsPlainsOrAnError) {
  expect_same_or_error_in_every_mode(
      [](const RunPart& run) {
        Tensors all;
        for (int step = 0; step < kNumSteps; ++step) {
          auto leaf = torch::randn({6}).requires_grad_();
          auto x = leaf * 1;
          const auto y = run([&] {
            x.tanh_();
            return (x * x.exp()).sin();
          });
          x.set_data(torch::ones({6}));
          y.sum().backward();
          all.push_back(leaf.grad());
        }
        return all;
      },
      {.text = "was overwritten after the forward pass", .least_num_same = 24});
}

TEST(UnversionedWrite, H3GuardOffLooksAtNothing) {
  torch::nn::Linear layer(8, 8);
  const auto x = torch::randn({5, 8});
  Region region({.policy = "drop_all", .verify = Verify::never, .guard = Guard::off});
  const auto y = region.run([&] { return layer(x).tanh().exp(); });
  layer->weight.data().add_(1);
  EXPECT_EQ(message_of([&] { y.sum().backward(); }), "nothing was thrown");
}

TEST(UnversionedWrite, H3ToOneElementOfALargeWeightIsSeenByTheGuardOfTheWhole) {
  torch::nn::Linear layer(1024, 1024);
  const auto x = torch::randn({4, 1024});
  const auto message_with = [&](Guard guard, std::int64_t element) {
    Region region({.policy = "drop_all", .verify = Verify::never, .guard = guard});
    const auto forward = [&] { return layer(x).tanh().exp().sum(); };
    layer->zero_grad();
    region.run(forward).backward();
    layer->zero_grad();
    const auto y = region.run(forward);
    layer->weight.data_ptr<float>()[element] += 1;
    return message_of([&] { y.backward(); });
  };
  int num_missed = 0;
  for (int i = 1; i <= 8; ++i) {
    const std::int64_t element = 127'031 * i;
    EXPECT_THAT(message_with(Guard::whole, element), HasSubstr("was overwritten after")) << element;
    num_missed += message_with(Guard::sampled, element) == "nothing was thrown" ? 1 : 0;
  }
  EXPECT_GT(num_missed, 0) << "samples meet every element, so the other guard has shown nothing";
}

TEST(UnversionedWrite, H3ErrorNamesTheOpAndLeavesTheNextStepRight) {
  torch::nn::Linear layer(8, 8);
  auto x = torch::randn({5, 8});
  Region region({.policy = "drop_all"});
  const auto body = [&] { return layer(x).tanh().exp(); };
  region.run(body).sum().backward();
  layer->zero_grad();
  const auto y = region.run(body);
  x.data().add_(1);
  const std::string message = message_of([&] { y.sum().backward(); });
  EXPECT_THAT(message, HasSubstr("aten::addmm"));
  layer->zero_grad();
  body().sum().backward();
  const auto plain = layer->weight.grad().clone();
  layer->zero_grad();
  region.run(body).sum().backward();
  EXPECT_TRUE(same_bits(plain, layer->weight.grad()));
}

TEST(UnversionedWrite, H3ToWhatTheProgramThenLetsGoOfIsWhatBackwardReadsOrAnError) {
  for (const bool constant : {false, true}) {
    at::Tensor held;
    expect_same_or_error_in_every_mode(
        steps_of(
            8,
            [&](Layers& layers, const at::Tensor& x, int /*step*/) {
              const auto h = torch::tanh(layers.a(x));
              held = constant ? torch::full({8, 8}, 0.5).clone() : h;
              return layers.b((h * (constant ? held : h.detach())).sin());
            },
            [&](Layers&, at::Tensor&) {
              held.data().mul_(0.5);
              held.reset();
            }),
        {.text = "was overwritten after the forward pass", .least_num_same = constant ? 24 : 21});
  }
}

TEST(UnversionedWrite, H3ToAColumnOfAWeightOfFewRowsIsSeen) {
  for (const std::int64_t column : {6, 10, 14, 4095}) {
    torch::nn::Linear layer(4096, 10);
    const auto x = torch::randn({4, 4096});
    const auto y = detail::run_dropped([&] { return layer(x).tanh().exp(); });
    layer->weight.data().select(1, column).add_(1);
    EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("was overwritten after"))
        << column;
  }
}

// As flattened optimizers, buckets of gradients and sharded training have them.
TEST(UnversionedWrite, H3ToAColumnOfAParameterInAFlatBufferIsSeen) {
  const auto flat = torch::randn({64 * 64 + 256 * 1024}) * 0.05;
  const auto small = flat.narrow(0, 0, 64 * 64).view({64, 64}).detach().requires_grad_();
  const auto large =
      flat.narrow(0, 64 * 64, 256 * 1024).view({256, 1024}).detach().requires_grad_();
  for (std::int64_t column = 0; column < 1024; column += 31) {
    const auto x = torch::randn({4, 64});
    const auto z = torch::randn({4, 256});
    const auto y = detail::run_dropped([&] {
      return torch::tanh(x.mm(small)).exp().sum() + torch::tanh(z.mm(large)).exp().sum();
    });
    large.data().select(1, column).add_(1);
    EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("was overwritten after")) << column;
  }
}

TEST(UnversionedWrite, H3ToAColumnOfAWeightThatIsFirstReadFlatIsSeen) {
  const auto weight = (torch::randn({256, 1024}) * 0.05).requires_grad_();
  for (std::int64_t column = 0; column < 1024; column += 31) {
    const auto z = torch::randn({4, 256});
    const auto y = detail::run_dropped([&] {
      const auto penalty = weight.view({-1}).tanh().exp().sum();
      return torch::tanh(z.mm(weight)).exp().sum() + penalty;
    });
    weight.data().select(1, column).add_(1);
    EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("was overwritten after")) << column;
  }
}

}  // namespace
}  // namespace gradrecomp::test
