// Conformance H2: memory that the program fills by hand, part by part, or again.
#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hazards/layer_steps.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

/// A step that fills the slots of a `buffer` one after the other, each read before the next.
template <typename Make, typename Read>
auto rollout(std::int64_t width, Make make, Read read) {
  return steps_of(width, [make, read](Layers& layers, const at::Tensor& x, int step) {
    auto buffer = make(at::IntArrayRef{4, x.size(0), x.size(1)});
    auto h = layers.a(x);
    for (int slot = 0; slot < 4; ++slot) {
      auto* numbers = buffer.template data_ptr<float>() + slot * x.numel();
      for (int i = 0; i < x.numel(); ++i)
        numbers[i] = 0.1F * static_cast<float>(i % 7 + slot - step);
      h = torch::tanh(h + layers.a(read(buffer, slot)));
    }
    return layers.b(h.exp());
  });
}

TEST(RawWrite, H2IntoSlotsOfOneBufferThatAreReadInTurnIsExact) {
  using Make = std::function<at::Tensor(at::IntArrayRef)>;
  using ReadSlot = std::function<at::Tensor(const at::Tensor& buffer, int slot)>;
  const std::vector<Make> factories = {[](at::IntArrayRef s) { return torch::empty(s); },
                                       [](at::IntArrayRef s) { return torch::zeros(s); },
                                       [](at::IntArrayRef s) { return torch::rand(s).mul(2); }};
  const std::vector<ReadSlot> reads = {
      [](const at::Tensor& b, int slot) { return b[slot]; },
      [](const at::Tensor& b, int slot) { return b[slot].clone(); },
      [](const at::Tensor& b, int slot) { return b.narrow(0, 0, slot + 1).sum(0); }};
  for (const std::int64_t width : {8, 144}) {
    for (std::size_t i = 0; i < factories.size(); ++i) {
      for (std::size_t j = 0; j < reads.size(); ++j) {
        SCOPED_TRACE(std::to_string(width) + ", " + std::to_string(i) + ", " + std::to_string(j));
        expect_same_in_every_mode(rollout(width, factories[i], reads[j]));
      }
    }
  }
}

using Step = std::function<at::Tensor(Layers& layers, const at::Tensor& x, int step)>;

/// checkpoint() has dropped what another mode keeps once it sees such a write.
void expect_exact_but_under_checkpoint(const std::vector<Step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    const int num_errors = expect_same_or_error_in_every_mode(
        steps_of(16, steps[i]),
        {.text = "were overwritten by another thread or without the dispatcher's knowledge",
         .least_num_same = 20});
    EXPECT_LE(num_errors, 1);
  }
}

// Each slot is filled again, by when a window of the first step has dropped what was made of it.
TEST(RawWrite, H2OntoWhatOpsHaveReadOfOneBufferIsExactButUnderCheckpoint) {
  const auto fill = [](const at::Tensor& part, int seed) {
    for (int i = 0; i < part.numel(); ++i) {
      part.data_ptr<float>()[i] = 0.1F * static_cast<float>((i + 3 * seed) % 7 - 3);
    }
  };
  const std::vector<Step> steps = {[&](Layers& layers, const at::Tensor& x, int step) {
                                     auto ring = torch::zeros({2, x.size(0), x.size(1)});
                                     auto h = layers.a(x);
                                     for (int i = 0; i < 5; ++i) {
                                       fill(ring[i % 2], i + step);
                                       h = layers.a(torch::tanh(h + ring[i % 2]));
                                     }
                                     return layers.b(h.exp());
                                   },
                                   [&](Layers& layers, const at::Tensor& x, int step) {
                                     auto buffer = torch::empty_like(x);
                                     fill(buffer, step);
                                     auto h = (torch::tanh(layers.a(x)) * buffer.sin()).sin();
                                     fill(buffer, step + 1);
                                     return layers.b((h * buffer.exp()).exp());
                                   },
                                   [&](Layers& layers, const at::Tensor& x, int step) {
                                     auto slots = torch::zeros({3, x.size(0), x.size(1)});
                                     auto h = layers.a(x);
                                     for (int i = 0; i < 3; ++i) {
                                       fill(slots[i], i + step);
                                       h = layers.a(torch::tanh(h + slots[i].sin()));
                                     }
                                     fill(slots[0], 9);  // and reads it no more
                                     return layers.b(h.exp());
                                   }};
  expect_exact_but_under_checkpoint(steps);
}

at::Tensor& double_into(at::Tensor& out, const at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return out.copy_(x).mul_(2);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("double_into(Tensor(a!) out, Tensor x) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("double_into", &double_into); }
TORCH_LIBRARY_IMPL(gradrecomp_test, Autograd, library) {
  library.impl("double_into", torch::CppFunction::makeFallthrough());
}

// Of the results of one call autograd may follow some alone.
TEST(RawWrite, H2OntoWhatAutogradDoesNotFollowOfACallIsExact) {
  const auto scale = [](const at::Tensor& part, float by) {
    for (int i = 0; i < part.numel(); ++i) part.data_ptr<float>()[i] *= by;
  };
  const std::vector<Step> steps = {
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        const auto z = y.sin();
        const auto constant = torch::ones_like(x);
        at::_foreach_add_({constant, z}, {torch::ones_like(x), y});
        auto h = torch::tanh(z * constant.exp());
        scale(constant, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h * constant.exp()));
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        const auto made = at::_foreach_mul({torch::ones_like(x), y}, 2.0);
        scale(made[0], 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(made[1]) * made[0].exp());
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto mean = torch::zeros({x.size(1)});
        const auto variance = torch::ones({x.size(1)});
        auto h = at::batch_norm(layers.a(x), {}, {}, mean, variance, true, 0.1, 1e-5, false);
        h = torch::tanh(h * mean.exp());
        scale(mean, static_cast<float>(step + 2));
        return layers.b(torch::tanh(h * mean.exp()));
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        const auto counts = at::histc(y, x.size(1), -1, 1);
        scale(counts, 0.01F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(y) * counts.exp());
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        const auto [normal, mean, deviation] = at::native_layer_norm(y, {y.size(1)}, {}, {}, 1e-5);
        auto h = torch::tanh(normal * deviation.exp());
        scale(deviation, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h * deviation.exp()));
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        const auto waves = at::special_bessel_j0(y);
        scale(waves, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(y) * waves.exp());
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        auto noise = torch::zeros_like(y);
        auto h = at::rrelu_with_noise(y, noise, 0.1, 0.3, /*training=*/true) * noise.exp();
        scale(noise, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h * noise.exp()));
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        const auto y = layers.a(x);
        auto flags = torch::zeros_like(y);
        flags.logical_or_(y);
        auto h = torch::tanh(y * flags.exp());
        scale(flags, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h * flags.exp()));
      },
      [&](Layers& layers, const at::Tensor& x, int step) {
        static const auto op =
            c10::Dispatcher::singleton().findSchemaOrThrow("gradrecomp_test::double_into", "");
        const auto y = layers.a(x);
        auto out = torch::zeros_like(y);
        op.typed<at::Tensor&(at::Tensor&, const at::Tensor&)>().call(out, y);
        auto h = torch::tanh(y * out.exp());
        scale(out, 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h * out.exp()));
      }};
  expect_exact_but_under_checkpoint(steps);
}

// To autograd it is as it was saved, so backward reads what is there last.
TEST(RawWrite, H2OntoWhatAnOpHasWrittenToSinceItWasSavedIsExact) {
  using Change = std::function<void(const at::Tensor& saved, const at::Tensor& x)>;
  const std::vector<Change> changes = {
      [](const at::Tensor& saved, const at::Tensor&) { saved.variable_data().mul_(2.0); },
      [](const at::Tensor& saved, const at::Tensor& x) { saved.variable_data().add_(x); },
      [](const at::Tensor& saved, const at::Tensor& x) {
        const at::NoGradGuard no_gradients;
        auto data = saved.variable_data();
        at::sin_out(data, x);
        data.exp_();
      }};
  const std::vector<std::function<at::Tensor(const at::Tensor& x)>> makes = {
      [](const at::Tensor& x) { return torch::empty_like(x).fill_(0.5); },
      [](const at::Tensor& x) { return torch::zeros_like(x); },
      [](const at::Tensor& x) { return x.sin(); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (std::size_t j = 0; j < makes.size(); ++j) {
      SCOPED_TRACE(std::to_string(i) + ", " + std::to_string(j));
      expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
        const auto saved = makes[j](x);
        const auto h = layers.a(x) * saved;
        changes[i](saved, x);
        std::fill_n(saved.data_ptr<float>(), saved.numel(), 0.25F * static_cast<float>(step + 1));
        return layers.b(torch::tanh(h));
      }));
    }
  }
}

TEST(RawWrite, H2IntoWhatAFactorysResultHasGrownByIsSeen) {
  expect_exact_but_under_checkpoint({[](Layers& layers, const at::Tensor& x, int step) {
    const auto slots = torch::full({1, x.size(0), x.size(1)}, 0.25);
    slots.resize_({2, x.size(0), x.size(1)});
    auto h = layers.a(x);
    for (int i = 0; i < 2; ++i) {
      auto* numbers = slots.data_ptr<float>() + x.numel();
      std::fill_n(numbers, x.numel(), 0.1F * static_cast<float>(step + 3 * i));
      h = layers.a(torch::tanh(h + slots[1].sin()));
    }
    return layers.b(h * slots[0].sin());
  }});
}

}  // namespace
}  // namespace gradrecomp::test
