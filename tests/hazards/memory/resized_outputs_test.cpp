// Conformance H11: outputs that operators resize.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "support/live_memory.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

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

// An operator that makes its output smaller leaves the rest of the memory as it was.
TEST(ResizedOutputs, H11ThatShrinkLeaveTheRestToThoseWhoFilledIt) {
  expect_same_in_every_mode(steps_of(8, [](Layers& layers, const at::Tensor& x, int step) {
    auto made = torch::empty({8});
    for (int i = 0; i < 8; ++i) made.data_ptr<float>()[i] = static_cast<float>(i + step);
    at::mul_out(made, torch::ones({4}), torch::full({4}, step + 1));
    made.resize_({8});
    return layers.b(torch::tanh(layers.a(x)) * made);
  }));
}

// It resizes the memory that it makes for its result.
TEST(ResizedOutputs, H11OfAddbmmArePlannedAndExact) {
  const auto sum = torch::ones({1}).requires_grad_();
  const auto a = torch::randn({2, 3, 4}).requires_grad_();
  const auto b = torch::randn({2, 4, 3});
  const auto body = [&] { return torch::addbmm(sum.clone(), a.clone(), b).square(); };
  expect_same_in_every_mode([&](const RunPart& run) {
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      run(body).sum().backward();
      all.push_back(gradient_of(sum));
      all.push_back(gradient_of(a));
    }
    return all;
  });
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    sum.mutable_grad() = at::Tensor();
    a.mutable_grad() = at::Tensor();
    region.run(body).sum().backward();
    EXPECT_EQ(region.last_step().followed_plan, step > 0) << region.last_step().reason;
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
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

}  // namespace
}  // namespace gradrecomp::test
