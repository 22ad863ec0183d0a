// Conformance H17: writes that only version counters tell of.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <future>
#include <utility>

#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "hazards/writes/dirty_add.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

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
    expect_same_or_error_in_every_mode(program, {.least_num_same = 23});
  }
}

// Inference mode made it, and set_data() has given it memory and keys of another tensor since.
TEST(VersionedWrite, H17OfATensorThatHasNoVersionThoughItIsOfNoInferenceModeIsExact) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = torch::randn({40, 40}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      at::Tensor made;
      {
        const c10::InferenceMode inference;
        made = torch::randn({40, 40});
      }
      made.set_data(torch::randn({40, 40}));
      const auto alias = made.storage();
      const auto y = run([&] {
        const auto sum = (weight.relu() + made).tanh();
        const auto other = torch::empty({0}).set_(alias, 0, {40, 40}, {40, 1});
        return (sum + other).sin() + made;
      });
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

// Its memory has no version, whoever writes to it.
TEST(VersionedWrite, H17ToWhatInferenceModeMadeIsPlainsOrAnError) {
  const auto make = [](const at::Tensor& like) {
    const c10::InferenceMode inference;
    return torch::ones_like(like).mul(0.5);
  };
  for (const bool is_made_inside : {false, true}) {
    SCOPED_TRACE(is_made_inside);
    const auto program = [=](const RunPart& run) {
      auto weight = torch::randn({1000, 100}).requires_grad_();
      auto made = make(weight);
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        const auto y = run([&] {
          if (is_made_inside) made = make(weight);
          return (weight + made).square().sum();
        });
        {
          const c10::InferenceMode inference;
          made[517][43].add_(3);  // which no sample is of
        }
        y.backward();
        all.push_back(gradient_of(weight));
      }
      return all;
    };
    const int num_errors = expect_same_or_error_in_every_mode(program, {.least_num_same = 10});
    if (!is_made_inside) EXPECT_GT(num_errors, 0);
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

// What another thread reads of the region's meanwhile, and makes of it, the region goes on with.
TEST(VersionedWrite, H17OfAnotherThreadBesideOneThatRecordsNothingIsFound) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int) {
    const auto h = torch::tanh(x).add(1);
    auto elsewhere = std::async(std::launch::async, [&] { return torch::gelu(layers.a(h)).sin(); });
    const auto here = torch::gelu(layers.a(h.flip(0))).cos();
    const auto u = elsewhere.get();
    auto z = torch::zeros({8, 8});
    std::async(std::launch::async, [&] {
      const torch::NoGradGuard no_grad;
      z.add_(u.detach()).mul_(2);
    }).get();
    return layers.b((u * here).tanh() * z + u.exp());
  }));
}

// A backward pass in the region comes before the recorder has looked again.
TEST(VersionedWrite, H17OfAnotherThreadBeforeABackwardInTheRegionIsPlainsOrAnError) {
  // Above what is kept because it is small.
  auto weight = (torch::randn({160, 160}) * 0.1).requires_grad_();
  Region region(
      {.policy = "drop_all", .verify = Verify::never, .guard = Guard::off, .window_bytes = 240000});
  auto x = torch::randn({160, 160});
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

}  // namespace
}  // namespace gradrecomp::test
