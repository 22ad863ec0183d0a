// Conformance H1, H2, H3, H15, H17: memory that is borrowed, or written unseen.
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>
#include <future>

#include "gradrecomp/region.h"
#include "hazards/dirty_add.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

constexpr int kNumSteps = 4;

/// Two layers and their gradients.
class Layers {
 public:
  explicit Layers(std::int64_t width) : a(width, width), b(width, 4) {}

  /// Gradients of the squares of `y`, which leaves none behind.
  Tensors gradients(const at::Tensor& y) {
    y.pow(2).mean().backward();
    Tensors all = {y.detach().clone()};
    for (auto& layer : {a, b}) {
      for (auto& parameter : layer->parameters()) {
        all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
      }
    }
    return all;
  }

  torch::nn::Linear a;
  torch::nn::Linear b;
};

void append(Tensors& all, Tensors more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// A program of steps that differ by `body(layers, x, step)`, which runs in the region, and
/// `after`, which runs between forward and backward.
HostileProgram steps_of(std::int64_t width,
                        const std::function<at::Tensor(Layers&, const at::Tensor&, int)>& body,
                        const std::function<void(Layers&, at::Tensor&)>& after = {}) {
  return [=](const RunPart& run) {
    Layers layers(width);
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      at::Tensor x = torch::randn({width, width});
      const at::Tensor y = run([&] { return body(layers, x, step); });
      if (after) after(layers, x);
      append(all, layers.gradients(y));
    }
    return all;
  };
}

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

TEST(BorrowedMemory, H1WeightsInItAreReplayedFrom) {
  std::vector<float> numbers(64 * 64, 0.125F);
  auto weight = torch::from_blob(numbers.data(), {64, 64}).requires_grad_();
  const auto x = torch::randn({8, 64});
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
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

TEST(RawWrite, H2OntoAFactorysResultIsSeenWheneverItMakesADifference) {
  expect_same_in_every_mode(steps_of(6, [](Layers& layers, const at::Tensor& x, int step) {
    auto mask = torch::ones({6, 1});
    auto rows = mask.accessor<float, 2>();
    for (int i = 0; i < 6; ++i) {
      if (step > 0 && i % 3 == step % 3) rows[i][0] = 0;
    }
    return layers.b(torch::tanh(layers.a(x)) * mask);
  }));
}

TEST(RawWrite, H2OntoFactoriesOfAllKindsIsSeen) {
  using Factory = std::function<at::Tensor(at::IntArrayRef)>;
  const std::vector<Factory> factories = {
      [](at::IntArrayRef s) { return torch::zeros(s); },
      [](at::IntArrayRef s) { return torch::full(s, 0.5); },
      [](at::IntArrayRef s) { return torch::rand(s); },
      [](at::IntArrayRef s) { return torch::randn(s).abs(); },
      [](at::IntArrayRef s) { return torch::arange(s[0] * s[1], torch::kFloat).view(s).sin(); },
      [](at::IntArrayRef s) { return torch::eye(s[0], s[1]); },
      [](at::IntArrayRef s) { return torch::empty(s).fill_(2); },
      [](at::IntArrayRef s) { return torch::empty(s).uniform_(); },
      [](at::IntArrayRef s) { return torch::ones(s).clone(); },
      [](at::IntArrayRef s) { return torch::zeros(s, torch::kInt).to(torch::kFloat); }};
  for (std::size_t i = 0; i < factories.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      auto made = factories[i](x.sizes());
      if (step > 0) std::memset(made.data_ptr<float>() + step, 0, 3 * sizeof(float));
      return layers.b(torch::tanh(layers.a(x)) * made);
    }));
  }
}

TEST(RawWrite, H2OntoALargeFactorysResultIsSeenToTheBit) {
  expect_same_in_every_mode(steps_of(200, [](Layers& layers, const at::Tensor& x, int step) {
    auto mask = torch::ones({200, 200});
    if (step > 0) mask.data_ptr<float>()[4321 * step] = 0;
    return layers.b(torch::tanh(layers.a(x)) * mask);
  }));
}

TEST(RawWrite, H2BetweenTwoReadsGivesEachWhatItRead) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int step) {
    auto mask = torch::ones({8, 8});
    const auto first = torch::tanh(layers.a(x)) * mask.exp();
    for (int i = 0; i <= step; ++i) mask.data_ptr<float>()[i] = 0.25F;
    const auto second = torch::sigmoid(layers.a(x)) * mask.exp();
    return layers.b(first * second);
  }));
}

TEST(RawWrite, H2BetweenTwoReadsOfWhatWasChangedInPlaceGivesEachWhatItRead) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int step) {
    auto mask = torch::ones({8, 8});
    mask.mul_(0.5).add_(0.1);
    const auto first = torch::tanh(layers.a(x)) * mask.exp();
    for (int i = 0; i <= step; ++i) mask.data_ptr<float>()[i] = 0.25F;
    const auto second = torch::sigmoid(layers.a(x)) * mask.exp();
    return layers.b(first * second);
  }));
}

TEST(RawWrite, H2IntoOneBufferThatALoopUsesAgainGivesEachWhatItReadOrAnError) {
  const auto program = steps_of(8, [](Layers& layers, const at::Tensor& x, int /*step*/) {
    auto buffer = torch::empty({8, 8});
    auto h = layers.a(x);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 64; ++j) buffer.data_ptr<float>()[j] = static_cast<float>(i + j % 5);
      h = torch::tanh(h) + buffer.sin();
    }
    return layers.b(h.exp());
  });
  const int num_errors = expect_same_or_error_in_every_mode(
      program, "were overwritten without the dispatcher's knowledge");
  const auto is_unverified = [](const Mode& mode) {
    return mode.name.find("never") != std::string::npos || mode.name == "checkpoint()";
  };
  EXPECT_LE(num_errors, std::ranges::count_if(every_mode(), is_unverified));
}

// Ops that write to some of it go on from what a pointer put there.
TEST(RawWrite, H2IntoABufferThatOpsWriteToAfterwardsIsSeen) {
  using Write = std::function<void(at::Tensor & buffer, const at::Tensor& x)>;
  const std::vector<Write> writes = {
      [](at::Tensor& b, const at::Tensor& x) { b.narrow(0, 0, 4).copy_(x.narrow(0, 0, 4)); },
      [](at::Tensor& b, const at::Tensor& x) { at::mul_out(b, b, x); },
      [](at::Tensor& b, const at::Tensor& x) {
        b.index_put_({torch::tensor({1, 2})}, x[0], true);
      },
      [](at::Tensor& b, const at::Tensor&) { b.select(1, 3).fill_(2); },
      [](at::Tensor& b, const at::Tensor& x) { b.masked_fill_(x > 0, 0.5); },
      [](at::Tensor& b, const at::Tensor& x) {
        b.scatter_(0, torch::zeros({1, 8}, torch::kLong), x);
      },
      [](at::Tensor& b, const at::Tensor& x) { b.copy_(x); }};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      auto buffer = torch::empty({8, 8});
      std::fill_n(buffer.data_ptr<float>(), buffer.numel(), static_cast<float>(step));
      writes[i](buffer, x);
      return layers.b(torch::tanh(layers.a(x)) * buffer);
    }));
  }
}

TEST(UnversionedWrite, H3BetweenForwardAndBackwardIsPlainsOrAnError) {
  const auto body = [](Layers& layers, const at::Tensor& x, int) {
    return layers.b(torch::gelu(torch::tanh(layers.a(x)) * x));
  };
  const std::vector<std::function<void(Layers&, at::Tensor&)>> writes = {
      [](Layers&, at::Tensor& x) { x.data().zero_(); },
      [](Layers&, at::Tensor& x) { std::memset(x.data_ptr(), 0, 64); },
      [](Layers& layers, at::Tensor&) { layers.b->weight.data().add_(0.5); },
      [](Layers& layers, at::Tensor&) { layers.a->weight.data().mul_(2); },
      [](Layers& layers, at::Tensor&) { layers.a->bias.data().add_(1); },
      [](Layers& layers, at::Tensor&) {
        layers.b->weight.set_data(torch::ones({4, 24}));
      },
      [](Layers&, at::Tensor& x) {
        x.set_data(torch::ones({24, 24}));
      },
      [](Layers&, at::Tensor& x) { x = at::Tensor(); }};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_or_error_in_every_mode(steps_of(24, body, writes[i]),
                                       "was overwritten after the forward pass");
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
    expect_same_or_error_in_every_mode(program, "overwritten");
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
    expect_same_or_error_in_every_mode(program, "overwritten");
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
  expect_same_or_error_in_every_mode(program, "overwritten");
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
  expect_same_or_error_in_every_mode(program, "overwritten");
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
  expect_same_or_error_in_every_mode(program, "without its version counter growing");
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
        "GradRecomp");
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
    const auto weight = torch::randn({16, 16}).requires_grad_();
    const auto p = torch::randn({8, 16}).requires_grad_();
    const auto q = torch::randn({8, 16}).requires_grad_();
    const auto x = torch::randn({8, 16});
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

TEST(RawWrite, H2OntoAMaskOrIndicesIsSeenThoughTheyHangOnParameters) {
  const auto x = torch::randn({8, 8});
  expect_same_in_every_mode([&](const RunPart& run) {
    Tensors all;
    const auto weight = torch::randn({8, 8}).requires_grad_();
    for (int step = 0; step < kNumSteps; ++step) {
      weight.mutable_grad() = at::Tensor();
      const auto y = run([&] {
        const auto h = x.mm(weight);
        auto mask = h > 0;
        auto best = h.argmax(1);
        if (step > 0) {
          mask.data_ptr<bool>()[0] = !mask.data_ptr<bool>()[0];
          best.data_ptr<std::int64_t>()[0] = (best.data_ptr<std::int64_t>()[0] + 1) % 8;
        }
        return torch::where(mask, h.sin(), h.cos()).index_select(1, best).exp();
      });
      y.sum().backward();
      all.push_back(weight.grad());
    }
    return all;
  });
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
      "was overwritten after the forward pass");
}

TEST(UnversionedWrite, H3GuardOffLooksAtNothing) {
  torch::nn::Linear layer(8, 8);
  const auto x = torch::randn({5, 8});
  Region region({.policy = "drop_all", .verify = Verify::never, .guard = Guard::off});
  const auto y = region.run([&] { return layer(x).tanh().exp(); });
  layer->weight.data().add_(1);
  EXPECT_EQ(message_of([&] { y.sum().backward(); }), "nothing was thrown");
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

TEST(ResizedStorage, H15GivenBackAndFilledAgainIsExactOrAnError) {
  // A parameter whose memory is there only while its layer works, as sharded training has it.
  const auto program = [](const RunPart& run) {
    torch::manual_seed(5);
    const auto shard = torch::randn({16, 16}) * 0.2;
    auto weight = torch::empty({16, 16}).requires_grad_();
    const auto gather = [&] {
      auto memory = c10::GetCPUAllocator()->allocate(shard.nbytes());
      std::memcpy(memory.get(), shard.data_ptr(), shard.nbytes());
      weight.storage().unsafeGetStorageImpl()->set_data_ptr(std::move(memory));
      weight.storage().unsafeGetStorageImpl()->set_nbytes(shard.nbytes());
    };
    const auto release = [&] {
      weight.storage().unsafeGetStorageImpl()->set_data_ptr({nullptr, c10::kCPU});
      weight.storage().unsafeGetStorageImpl()->set_nbytes(0);
    };
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({4, 16});
      auto y = run([&] {
        gather();
        auto inner = torch::gelu(x.mm(weight)).sin();
        inner.register_hook([&](const at::Tensor&) { gather(); });
        release();
        return inner.exp();
      });
      y.sum().backward();
      gather();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(program, "in the forward pass and has 0 now");
  // Who keeps all has nothing to replay, in the first step neither.
  torch::manual_seed(1);
  const auto plain = program([](const std::function<at::Tensor()>& part) { return part(); });
  for (const Verify verify : {Verify::first_step, Verify::never, Verify::every_n_steps}) {
    Region region({.policy = "keep_all", .verify = verify});
    torch::manual_seed(1);
    expect_same_bits(
        plain, program([&](const std::function<at::Tensor()>& part) { return region.run(part); }));
  }
}

TEST(VersionedWrite, H17PastTheDispatcherIsFoundByItsVersion) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int) {
    return layers.b(DirtyAdd::apply(layers.a(x)).square().sin());
  }));
}

// No op reads what has been written, so its version is not looked at any more.
TEST(VersionedWrite, H17AfterTheLastReadIsPlainsOrAnError) {
  for (const int first_to_write : {0, kNumSteps}) {
    SCOPED_TRACE(first_to_write);
    const auto program = [=](const RunPart& run) {
      auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
      Tensors all;
      for (int step = 0; step < 2 * kNumSteps; ++step) {
        const auto x = torch::randn({8, 8});
        at::Tensor out;
        const auto y = run([&] {
          const auto h = x.mm(weight);
          const auto made = h.exp().sin().sum();
          out = step >= first_to_write ? DirtyAdd::apply(h) : h;
          return made;
        });
        (y + out.sum()).backward();
        all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    expect_same_or_error_in_every_mode(program, "GradRecomp");
  }
}

TEST(VersionedWrite, H17OfAnotherThreadIsFound) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int step) {
    auto z = torch::zeros({8, 8});
    std::async(std::launch::async, [&] {
      const torch::NoGradGuard no_grad;
      z.add_(x, step + 1).mul_(2);
    }).get();
    return layers.b(torch::tanh(layers.a(x)) * z.exp());
  }));
}

// A backward pass in the region comes before the recorder has looked again.
TEST(VersionedWrite, H17OfAnotherThreadBeforeABackwardInTheRegionIsPlainsOrAnError) {
  auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
  Region region(
      {.policy = "drop_all", .verify = Verify::never, .guard = Guard::off, .window_bytes = 600});
  auto x = torch::randn({8, 8});
  EXPECT_THAT(message_of([&] {
                region.run([&] {
                  const auto h = weight.mm(weight).tanh() * x.exp();
                  const auto sum = h.sin().sum();  // where the first window closes
                  std::async(std::launch::async, [&] { x.add_(1); }).get();
                  return torch::autograd::grad({sum}, {weight})[0];
                });
              }),
              HasSubstr("modified by an inplace operation"));
}

TEST(NotedWrite, H4MakesRawWritesExact) {
  for (const bool before : {true, false}) {
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      auto h = torch::tanh(layers.a(x));
      const auto read_before = h.detach().exp();
      auto copy = h.detach() * 2;
      if (before) note_write(copy);
      copy.data_ptr<float>()[step] = 7;
      if (!before) note_write(copy);
      return layers.b(h * copy.sin() + read_before);
    }));
  }
}

TEST(NotedWrite, H4OutsideRegionsMakesAutogradsVersionCheckSeeIt) {
  auto x = torch::randn({8}).requires_grad_();
  auto h = x * 2;
  auto y = h.exp();
  note_write(y);
  EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("modified by an inplace"));
  EXPECT_THAT(message_of([] { note_write({}); }), HasSubstr("note_write: tensor is undefined"));
}

}  // namespace
}  // namespace gradrecomp::test
