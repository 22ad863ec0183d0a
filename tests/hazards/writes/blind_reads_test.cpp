// Conformance H3: what a planned step reads without a look, as no replay of its op sequence was
// expected to read it.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/writes/dirty_add.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kNumSteps = 4;

void fill(const at::Tensor& tensor) { std::fill_n(tensor.data_ptr<float>(), tensor.numel(), 2.0F); }

at::Tensor small_weight() { return (torch::randn({8, 8}) * 0.3).requires_grad_(); }

/// What a step works on.
struct Scene {
  int step;
  at::Tensor x = torch::randn({8, 8});
  at::Tensor weight;
  at::Tensor more = torch::zeros({});  ///< what backward begins at beside the region's result

  /// Only late steps do what plans do not know.
  [[nodiscard]] bool is_late() const { return step >= kNumSteps; }
};

HostileProgram steps_of(const std::function<at::Tensor(Scene&)>& body) {
  return [=](const RunPart& run) {
    auto weight = small_weight();
    Tensors all;
    for (int step = 0; step < 2 * kNumSteps; ++step) {
      Scene scene{.step = step, .weight = weight};
      const auto y = run([&] { return body(scene); });
      (y + scene.more.sum()).backward();
      all.push_back(y.detach().clone());
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
}

// The ops are the same, but early steps save nothing of them.
TEST(BlindRead, H3WhatOnlyLateStepsSaveIsPlainsOrAnError) {
  const auto program = steps_of([](Scene& scene) {
    at::Tensor product;
    {
      const torch::AutoGradMode mode(scene.is_late());
      product = scene.x.exp() * scene.weight;
    }
    if (scene.is_late()) {
      fill(scene.x);
      scene.more = product.sum();
    }
    return scene.weight.exp().sin().sum();
  });
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 2});
}

// Early steps hold it for what they wrote onto it, late ones make it again.
TEST(BlindRead, H3WhatEarlyStepsHoldByChanceIsPlainsOrAnError) {
  const auto program = steps_of([](Scene& scene) {
    const auto made = scene.x.exp();
    if (scene.step > 0 && !scene.is_late()) made.data_ptr<float>()[0] = 7;
    const auto sum = (made * scene.weight).sum();
    if (scene.is_late()) fill(scene.x);
    return sum;
  });
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 16});
}

/// Regions under a plan that keeps what `kept_op` makes alone, be it saved or not.
RunPart keeping(const std::string& kept_op) {
  const auto profiled = std::make_shared<Region>(Options{.policy = "drop_all"});
  const auto planned = std::make_shared<std::unique_ptr<Region>>();
  return [=, is_first = true](const std::function<at::Tensor()>& part) mutable {
    if (std::exchange(is_first, false)) return profiled->run(part);
    if (!*planned) {
      const plan::Graph graph = profiled->graph();
      plan::Plan plan{.policy = "given", .signature = graph.signature};
      for (const plan::Value& value : graph.values) {
        const bool is_kept = value.producer >= 0 && graph.ops[value.producer].name == kept_op;
        plan.keep.push_back(is_kept ? 1 : 0);
      }
      *planned = std::make_unique<Region>(Options{.plan = std::make_shared<plan::Plan>(plan)});
    }
    return (*planned)->run(part);
  };
}

/// Expects plain's bits of steps that keep what `kept_op` makes, or a stated error if they
/// `may_be_refused`.
void expect_same_keeping(const std::string& kept_op, const HostileProgram& program,
                         bool may_be_refused) {
  const WarningLog log;
  torch::manual_seed(1);
  const Tensors plain = program([](const std::function<at::Tensor()>& part) { return part(); });
  torch::manual_seed(1);
  try {
    expect_same_bits(plain, program(keeping(kept_op)));
  } catch (const std::exception& error) {
    EXPECT_TRUE(may_be_refused && is_stated_error(error.what())) << error.what();
  }
  EXPECT_THAT(log.text(), Not(HasSubstr("please report")));
}

// What a plan keeps needs no look at what it is made from, until its own content is gone.
TEST(BlindRead, H3WhatWasKeptAndWrittenAfterItsLastReadIsPlainsOrAnError) {
  const auto program = steps_of([](Scene& scene) {
    const auto kept = scene.x.mm(scene.weight);
    const auto sum = kept.exp().sin().sum();
    if (scene.is_late()) {
      scene.more = DirtyAdd::apply(kept);
      fill(scene.x);
    }
    return sum;
  });
  expect_same_keeping("aten::mm", program, /*may_be_refused=*/true);
}

TEST(BlindRead, H3WhatWasKeptUntilAnUnplannedOpWroteOntoItIsPlains) {
  for (const bool is_filled : {false, true}) {
    SCOPED_TRACE(is_filled);
    const auto program = steps_of([=](Scene& scene) {
      const auto kept = scene.x.mm(scene.weight);
      const auto sum = (kept + 1).tanh().sin().sum();
      if (scene.is_late() && is_filled) fill(scene.x);
      return sum + (scene.is_late() ? kept.mul_(2) : kept).sum();
    });
    expect_same_keeping("aten::mm", program, /*may_be_refused=*/false);
  }
}

/// Reads what `make` makes of a tensor that replays do not read otherwise, and reads it again after
/// a late step has written to it by hand.
HostileProgram reading_twice(const std::function<at::Tensor(const at::Tensor&)>& make) {
  return steps_of([=](Scene& scene) {
    const auto made = make(scene.x);
    const auto first = scene.weight.sin() * made.exp();
    if (scene.is_late()) fill(made);
    return (first * made.exp()).sum();
  });
}

// What was kept is gone, and all that it is made from is the shape of a tensor.
TEST(BlindRead, H3WhatAFactoryMadeInTheShapeOfATensorIsMadeAgain) {
  using Make = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<std::pair<std::string, Make>> factories = {
      {"aten::full_like", [](const at::Tensor& x) { return torch::full_like(x, 0.3); }},
      {"aten::zeros_like", [](const at::Tensor& x) { return torch::zeros_like(x); }},
      {"aten::rand_like", [](const at::Tensor& x) { return torch::rand_like(x); }},
      {"aten::new_full", [](const at::Tensor& x) {
         return x.new_full({8, 8}, 0.6);
       }}};
  for (const auto& [name, make] : factories) {
    SCOPED_TRACE(name);
    expect_same_keeping(name, reading_twice(make), /*may_be_refused=*/false);
    const auto of_refilled = [make = make](const at::Tensor& x) {
      auto made = make(x);
      x.mul_(2);
      fill(x);
      return made;
    };
    expect_same_keeping(name, reading_twice(of_refilled), /*may_be_refused=*/false);
  }
}

TEST(BlindRead, H3WhatWasKeptOfAConstantIsMadeAgainOnceItIsWrittenByHand) {
  expect_same_keeping("aten::neg", reading_twice([](const at::Tensor& x) { return x.neg(); }),
                      /*may_be_refused=*/false);
  expect_same_keeping("aten::cos", reading_twice([](const at::Tensor& x) { return x.neg().cos(); }),
                      /*may_be_refused=*/false);
}

}  // namespace
}  // namespace gradrecomp::test
