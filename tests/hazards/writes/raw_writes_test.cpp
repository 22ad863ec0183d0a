// Conformance H2: writes through a pointer to what operators have made.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "hazards/layer_steps.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

bool is_unverified(const Mode& mode) {
  return mode.name.find("never") != std::string::npos || mode.name == "checkpoint()";
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
      program, {.text = "were overwritten by another thread or without the dispatcher's knowledge",
                .least_num_same = 17});
  EXPECT_LE(num_errors, std::ranges::count_if(every_mode(), is_unverified));
}

// Autograd asks for it before the op that reads it is recorded.
TEST(RawWrite, H2IntoABufferThatAutogradHasSavedIsSeen) {
  const auto program = steps_of(8, [](Layers& layers, const at::Tensor& x, int /*step*/) {
    auto time = torch::empty({1});
    auto h = torch::tanh(layers.a(x));
    for (int i = 0; i < 4; ++i) {
      *time.data_ptr<float>() = 0.1F * static_cast<float>(i) + 0.05F;
      h = (h * time).sin();
    }
    return layers.b(h.exp());
  });
  const int num_errors = expect_same_or_error_in_every_mode(
      program, {.text = "were overwritten by another thread or without the dispatcher's knowledge",
                .least_num_same = 17});
  EXPECT_LE(num_errors, std::ranges::count_if(every_mode(), is_unverified));
}

// A plan that no write has been seen for does not ask for it.
TEST(RawWrite, H2IntoABufferOfALaterStepIsSeen) {
  for (const std::int64_t width : {8, 160}) {
    SCOPED_TRACE(width);
    expect_same_or_error_in_every_mode(
        steps_of(width,
                 [](Layers& layers, const at::Tensor& x, int step) {
                   auto bias = torch::empty({x.size(0), x.size(1)});
                   auto* numbers = bias.data_ptr<float>();
                   std::fill_n(numbers, bias.numel(), 0.5F);
                   const auto a = torch::tanh(layers.a(x) + bias).exp();
                   if (step > 0) std::fill_n(numbers, bias.numel() / 2, 0.0F);
                   return layers.b(a * (x - bias).sin());
                 }),
        {.text = "were overwritten by another thread or without the dispatcher's knowledge",
         .least_num_same = 4});
  }
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

// By hand only once there is a plan: what verification finds in a first step says nothing of it.
TEST(RawWrite, H2OntoAConstantThatWasWrittenIntoEmptyMemoryIsSeen) {
  const auto ones = torch::ones({8, 8});
  const std::vector<std::function<at::Tensor()>> constants = {
      [&] {
        return torch::empty({8, 8}).copy_(ones * 2);
      },
      [&] {
        return torch::empty({8, 8}).bernoulli_(ones * 0.5);
      },
      [&] {
        auto made = torch::empty({0});
        return at::where_out(made, ones > 0.5, ones, ones * 2);
      },
      [&] {
        auto made = torch::empty({8, 8});
        return at::mul_out(made, ones, ones * 2);
      },
      [&] {
        std::vector<at::Tensor> made = {torch::empty({8, 8})};
        at::_foreach_copy_(made, {ones * 2});
        return made[0];
      },
      [&] {
        auto made = torch::empty({8, 8});
        made.narrow(0, 0, 4).fill_(1);
        made.narrow(0, 4, 4).copy_(ones.narrow(0, 4, 4));
        return made;
      },
      [&] {
        auto sorted = torch::empty({0});
        auto order = torch::empty({0}, torch::kLong);
        at::sort_out(sorted, order, ones);
        return order;
      }};
  for (std::size_t i = 0; i < constants.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      auto constant = constants[i]();
      if (step > 1) std::memset(constant.data_ptr(), 0, constant.nbytes() / 2);
      return layers.b(torch::tanh(layers.a(x)) * (constant * 2));
    }));
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

TEST(RawWrite, H2OntoAFactorysResultIsSeenThoughItsShapeIsThatOfAnActivation) {
  using Factory = std::function<at::Tensor(const at::Tensor& h)>;
  const std::vector<Factory> factories = {
      [](const at::Tensor& h) { return torch::ones_like(h); },
      [](const at::Tensor& h) { return torch::full_like(h, 0.75); },
      [](const at::Tensor& h) { return torch::rand_like(h); },
      [](const at::Tensor& h) {
        return h.new_ones({8, 8});
      },
      [](const at::Tensor& h) { return torch::zeros_like(h).add_(1); }};
  for (std::size_t i = 0; i < factories.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      const auto h = torch::tanh(layers.a(x));
      auto mask = factories[i](h);
      for (int j = 0; j < step; ++j) mask.data_ptr<float>()[9 * j] = 0;
      return layers.b((h * mask).sin());
    }));
  }
}

TEST(RawWrite, H2OntoALargeConstantIsSeenToTheBitWhateverMadeIt) {
  using Factory = std::function<at::Tensor(const at::Tensor& x)>;
  const std::vector<Factory> factories = {
      [](const at::Tensor& x) { return torch::ones_like(x); },
      [](const at::Tensor& x) {
        return x.new_ones({200, 200});
      },
      [](const at::Tensor& /*x*/) {
        return torch::empty({200, 200}).fill_(1);
      },
      [](const at::Tensor& x) { return torch::empty_like(x).uniform_(); }};
  for (std::size_t i = 0; i < factories.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_in_every_mode(steps_of(200, [&](Layers& layers, const at::Tensor& x, int step) {
      auto mask = factories[i](x);
      if (step > 0) mask.data_ptr<float>()[4321 * step] = -3;
      return layers.b((torch::tanh(layers.a(x)) * mask).sin());
    }));
  }
}

TEST(RawWrite, H2AfterTheLastReaderOfASmallFactorysResultIsWhatBackwardReadsOrAnError) {
  const auto body = [](Layers& layers, const at::Tensor& x, int step) {
    const auto h = layers.a(x);
    auto scale = torch::ones_like(h);
    auto buffer = torch::empty({8, 8}).fill_(0.5);
    const auto y = h.sin() * scale * buffer;
    for (int i = 0; i < 8 * step; ++i) {
      scale.data_ptr<float>()[i] = -1;
      buffer.data_ptr<float>()[i] = 2;
    }
    return layers.b(y.exp());
  };
  expect_same_or_error_in_every_mode(
      steps_of(8, body), {.text = "was overwritten after the forward pass", .least_num_same = 12});
}

TEST(RawWrite, H2AfterTheLastReaderOfALargeFactorysResultIsWhatBackwardReadsOrAnError) {
  const auto program = [](const RunPart& run) {
    const auto weight = (torch::randn({160, 160}) * 0.1).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({160, 160});
      const auto y = run([&] {
        const auto h = x.mm(weight);
        const auto scale = torch::ones_like(h);
        const auto scaled = h * scale;  // which saves it
        std::fill_n(scale.data_ptr<float>(), scale.numel(), -1.0F);
        return scaled.sin();
      });
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(
      program, {.text = "was overwritten after the forward pass", .least_num_same = 20});
}

}  // namespace
}  // namespace gradrecomp::test
