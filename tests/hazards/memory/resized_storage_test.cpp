// Conformance H15: storages that are emptied and filled again.
#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

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

/// How parameters get their content when their layer runs, forward and backward.
enum class Gather {
  into_a_pool_by_bytes,  ///< one buffer for all layers, by bytes that no version counts
  into_a_pool_by_copy,   ///< the same, by an operator
  into_its_own_memory,   ///< which is there only while the layer runs
};

class Sharded {
 public:
  static constexpr int kNumLayers = 4;

  explicit Sharded(Gather gather) : gather_(gather) {
    for (int i = 0; i < kNumLayers; ++i) {
      shards_.push_back(torch::randn({16, 16}) * 0.2);
      const bool has_its_own = gather == Gather::into_its_own_memory;
      const auto memory = has_its_own ? torch::empty({16, 16}) : buffer_.detach();
      weights_.push_back(memory.requires_grad_());
      release(i);
    }
  }

  at::Tensor run(int layer, const at::Tensor& x, const RunPart& run_layer) {
    gather(layer);
    const auto y = run_layer([&] {
      const auto normalised = torch::layer_norm(x, {16});
      return x + torch::gelu(normalised.mm(weights_[layer])).sin();
    });
    y.register_hook([this, layer](const at::Tensor&) { gather(layer); });
    release(layer);
    return y;
  }

  /// Gradients of all layers, by which the shards go down.
  Tensors step() {
    Tensors gradients;
    for (int i = 0; i < kNumLayers; ++i) {
      gradients.push_back(gradient_of(weights_[i]));
      shards_[i].add_(gradients.back(), -0.01);
      release(i);
    }
    return gradients;
  }

 private:
  void gather(int layer) {
    const torch::NoGradGuard no_grad;
    const at::Tensor& weight = weights_[layer];
    if (gather_ == Gather::into_a_pool_by_copy) {
      weight.detach().copy_(shards_[layer]);
      return;
    }
    if (weight.storage().nbytes() == 0) {
      at::native::resize_bytes_nocuda(weight.storage(), shards_[layer].nbytes());
    }
    std::memcpy(weight.data_ptr(), shards_[layer].data_ptr(), shards_[layer].nbytes());
  }

  void release(int layer) {
    if (gather_ != Gather::into_its_own_memory) return;
    at::native::resize_bytes_nocuda(weights_[layer].storage(), 0);
  }

  Gather gather_;
  at::Tensor buffer_ = torch::zeros({16, 16});
  Tensors shards_;
  Tensors weights_;
};

/// Which parts of a step regions run.
enum class Around { all, all_in_stages, each_layer, each_layer_in_turn };

ProgramOfRegions sharded(Gather gather, Around around) {
  return [=](const std::function<RunPart()>& make) {
    Sharded model(gather);
    const bool has_one = around != Around::each_layer;
    std::vector<RunPart> parts;
    for (int i = 0; i < Sharded::kNumLayers; ++i) {
      parts.push_back(has_one && i > 0 ? parts[0] : make());
    }
    const bool is_whole = around == Around::all || around == Around::all_in_stages;
    const RunPart just_run = [](const std::function<at::Tensor()>& part) { return part(); };
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      auto x = torch::randn({4, 16});
      const auto layers = [&] {
        for (int i = 0; i < Sharded::kNumLayers; ++i) {
          x = model.run(i, x, is_whole ? just_run : parts[i]);
          if (around == Around::all_in_stages) begin_stage("after " + std::to_string(i));
        }
        return x;
      };
      const auto y = is_whole ? parts[0](layers) : layers();
      y.pow(2).sum().backward();
      all.push_back(y.detach().clone());
      for (auto& gradient : model.step()) all.push_back(std::move(gradient));
    }
    return all;
  };
}

/// What each way to gather and to wrap must show at least.
struct Case {
  Gather gather;
  Around around;
  int least_num_same;
};

class ShardedStorage : public ::testing::TestWithParam<Case> {};

TEST_P(ShardedStorage, H15OfAllLayersParametersIsExactOrAnError) {
  const auto& [gather, around, least_num_same] = GetParam();
  const char* const text = gather == Gather::into_its_own_memory
                               ? "but a replay needs"
                               : "without the dispatcher's knowledge";
  expect_same_or_error_in_every_mode(sharded(gather, around),
                                     {.text = text, .least_num_same = least_num_same});
}

INSTANTIATE_TEST_SUITE_P(
    Pools, ShardedStorage,
    ::testing::Values(Case{Gather::into_a_pool_by_bytes, Around::all, 17},
                      Case{Gather::into_a_pool_by_bytes, Around::all_in_stages, 17},
                      Case{Gather::into_a_pool_by_bytes, Around::each_layer, 24},
                      Case{Gather::into_a_pool_by_bytes, Around::each_layer_in_turn, 24}));

INSTANTIATE_TEST_SUITE_P(
    OwnMemory, ShardedStorage,
    ::testing::Values(Case{Gather::into_its_own_memory, Around::all, 20},
                      Case{Gather::into_its_own_memory, Around::all_in_stages, 20},
                      Case{Gather::into_its_own_memory, Around::each_layer, 24},
                      Case{Gather::into_its_own_memory, Around::each_layer_in_turn, 24}));

// The copies raise the version of what earlier layers have saved.
TEST(ShardedStorage, H15InAPoolFilledByCopiesIsRefusedAsInPlainTraining) {
  const auto plainly = []() -> RunPart {
    return [](const std::function<at::Tensor()>& part) { return part(); };
  };
  const WarningLog quiet;
  for (const Around around :
       {Around::all, Around::all_in_stages, Around::each_layer, Around::each_layer_in_turn}) {
    const auto program = sharded(Gather::into_a_pool_by_copy, around);
    ASSERT_THAT(message_of([&] { program(plainly); }), HasSubstr("modified by an inplace"));
    for (const Mode& mode : every_mode()) {
      SCOPED_TRACE(mode.name);
      EXPECT_THAT(message_of([&] { program(mode.make); }), HasSubstr("modified by an inplace"));
    }
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
