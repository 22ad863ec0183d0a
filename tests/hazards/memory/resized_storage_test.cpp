// Conformance H15: storages that are emptied and filled again.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "gradrecomp/region.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

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
  expect_same_or_error_in_every_mode(
      program, {.text = "in the forward pass and has 0 now", .least_num_same = 24});
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

// All layers' parameters are gathered into one buffer, each when its layer runs, forward and
// backward, by bytes that no version counts.
class Pool {
 public:
  static constexpr int kNumLayers = 4;

  Pool() {
    for (int i = 0; i < kNumLayers; ++i) {
      shards_.push_back(torch::randn({16, 16}) * 0.2);
      weights_.push_back(buffer_.detach().requires_grad_());
    }
  }

  void gather(int layer) {
    std::memcpy(buffer_.data_ptr(), shards_[layer].data_ptr(), buffer_.nbytes());
  }

  at::Tensor run(int layer, const at::Tensor& x) {
    gather(layer);
    const auto y = x + torch::gelu(x.mm(weights_[layer])).sin();
    y.register_hook([this, layer](const at::Tensor&) { gather(layer); });
    return y;
  }

  /// Gradients of all layers, by which the shards go down.
  Tensors step() {
    Tensors gradients;
    for (int i = 0; i < kNumLayers; ++i) {
      gradients.push_back(gradient_of(weights_[i]));
      shards_[i].add_(gradients.back(), -0.01);
    }
    return gradients;
  }

 private:
  at::Tensor buffer_ = torch::zeros({16, 16});
  Tensors shards_;
  Tensors weights_;
};

enum class Around { all, each_layer };

HostileProgram pooled(Around around) {
  return [around](const RunPart& run) {
    Pool pool;
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      auto x = torch::randn({4, 16});
      const auto layers = [&] {
        for (int i = 0; i < Pool::kNumLayers; ++i) {
          const auto layer = [&] { return pool.run(i, x); };
          x = around == Around::all ? layer() : run(layer);
        }
        return x;
      };
      const auto y = around == Around::all ? run(layers) : layers();
      y.pow(2).sum().backward();
      all.push_back(y.detach().clone());
      for (auto& gradient : pool.step()) all.push_back(std::move(gradient));
    }
    return all;
  };
}

TEST(ResizedStorage, H15PoolsOfAllLayersParametersAreExactOrAnError) {
  for (const Around around : {Around::all, Around::each_layer}) {
    expect_same_or_error_in_every_mode(
        pooled(around), {.text = "without the dispatcher's knowledge", .least_num_same = 17});
  }
}

at::DataPtr nowhere() { return {nullptr, c10::kCPU}; }

// Its size stays as it is, as swappers write it first.
TEST(ResizedStorage, H15SwappedOutByItsPointerAloneIsExactOrAnError) {
  expect_same_or_error_in_every_mode(
      [](const RunPart& run) {
        auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
        auto* memory = weight.storage().unsafeGetStorageImpl();
        auto away = std::make_shared<at::DataPtr>(memory->set_data_ptr(nowhere()));
        const auto bring_in = [=] {
          if (memory->data() == nullptr) memory->set_data_ptr(std::move(*away));
        };
        const auto take_out = [=] {
          if (memory->data() != nullptr) *away = memory->set_data_ptr(nowhere());
        };
        Tensors all;
        for (int step = 0; step < kNumSteps; ++step) {
          const auto x = torch::randn({4, 16});
          const auto y = run([&] {
            bring_in();
            auto inner = torch::gelu(x.mm(weight)).sin();
            inner.register_hook([=](const at::Tensor&) { bring_in(); });
            take_out();
            return inner.exp();
          });
          y.sum().backward();
          bring_in();
          all.push_back(gradient_of(weight));
          take_out();
        }
        bring_in();
        return all;
      },
      {.least_num_same = 24});
}

TEST(ResizedStorage, H15OfAnActivationSwappedOutByItsPointerAloneIsExactOrAnError) {
  expect_same_or_error_in_every_mode(
      [](const RunPart& run) {
        auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
        Tensors all;
        for (int step = 0; step < kNumSteps; ++step) {
          const auto x = torch::randn({4, 16});
          at::Tensor h;
          auto away = std::make_shared<at::DataPtr>();
          const auto y = run([&] {
            h = torch::tanh(x.mm(weight));
            const auto z = h.exp();
            auto storage = h.storage();
            *away = storage.unsafeGetStorageImpl()->set_data_ptr(nowhere());
            h.register_hook([=](const at::Tensor&) {  // before the node of tanh() runs
              auto* memory = storage.unsafeGetStorageImpl();
              if (memory->data() == nullptr) memory->set_data_ptr(std::move(*away));
            });
            return z.sin();
          });
          y.sum().backward();
          all.push_back(y.detach().clone());
          all.push_back(gradient_of(weight));
        }
        return all;
      },
      {.least_num_same = 20});
}

}  // namespace
}  // namespace gradrecomp::test
