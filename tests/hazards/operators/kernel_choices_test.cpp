// Conformance H2, H5: operators that choose by what their schemas do not show, or write less than
// those say.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

#include "hazards/layer_steps.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

HostileProgram steps_of(const std::function<at::Tensor(const at::Tensor& hidden, int step)>& body) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({15, 16});
      const auto y = run([&] { return body(x.mm(weight).tanh(), step); });
      const auto rubbish = torch::full({15, 16}, 7.0);
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

// oneDNN's layer computes otherwise where no gradient is wanted, as of a teacher.
TEST(KernelChoice, H5OfALayerWithoutGradientsIsThatOfTheForwardPass) {
  torch::nn::LSTM teacher(torch::nn::LSTMOptions(16, 16));
  expect_same_in_every_mode(steps_of([teacher](const at::Tensor& hidden, int /*step*/) mutable {
    at::Tensor taught;
    {
      const torch::NoGradGuard no_gradients;
      taught = std::get<0>(teacher->forward(hidden.detach().view({5, 3, 16}))).view({15, 16});
    }
    const auto sum = (hidden + taught).tanh();
    return (sum * sum.exp()).sum();
  }));
}

// In evaluation rrelu_with_noise() leaves the noise as it is, though its schema says that it writes
// it.
TEST(KernelChoice, H2WhatAnOperatorOnlySaysThatItWritesIsKept) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, int step) {
    auto noise = torch::empty({15, 16});
    for (int i = 0; i < noise.numel(); ++i) {
      noise.mutable_data_ptr<float>()[i] = 0.01F * static_cast<float>(i + step);
    }
    const auto noisy = at::rrelu_with_noise(hidden.detach(), noise, 0.125, 0.33, false);
    return (hidden.exp() * noise * noisy).tanh().sum();
  }));
}

// Within at::parallel_for() kernels use one thread, and add up in an order different from that of
// several.
TEST(KernelChoice, H5InAParallelLoopIsThatOfTheForwardPass) {
  const int num_threads = at::get_num_threads();
  at::set_num_threads(2);
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = (torch::randn({512}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({256, 512});
      at::Tensor y;
      at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
        if (begin > 0 || end == 0) return;
        const torch::AutoGradMode gradients(true);
        y = run([&] {
          const auto h = (x * weight).tanh();
          const auto sum = (h * h).sum();
          return sum * sum.sqrt() * 1e-3 + (h.exp().sum() * h.sum()).tanh();
        });
      });
      y.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
  at::set_num_threads(num_threads);
}

/// A function of the program's own, which calls operators below autograd, and shows what its
/// backward pass gets.
struct BelowAutograd : torch::autograd::Function<BelowAutograd> {
  using Body = std::function<at::Tensor(const at::Tensor&)>;
  static inline Tensors seen;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Body& body) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto y = body(x);
    context->save_for_backward({x, y.sin(), y.cos()});
    return y.sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    for (const std::size_t i : {1, 2}) seen.push_back(saved[i].clone());
    return {gradients[0] * saved[0], at::Tensor()};
  }
};

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("mixed(Tensor x, Tensor weight) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("mixed", [](const at::Tensor& x, const at::Tensor& weight) {
    return x.mm(weight).to(x.scalar_type()).tanh();
  });
}

/// Calls gradrecomp_test::mixed, whose product is made as autocast decides.
struct Mixed : torch::autograd::Function<Mixed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto y = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("gradrecomp_test::mixed", "")
                       .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>()
                       .call(x, weight);
    context->save_for_backward({x, weight, y});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto inner = gradients[0] * (1 - saved[2] * saved[2]);
    return {inner.mm(saved[1].t()), saved[0].t().mm(inner)};
  }
};

/// Has CPU operators compute in bfloat16, as torch.autocast() does.
class InBfloat16 {
 public:
  InBfloat16() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~InBfloat16() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  InBfloat16(const InBfloat16&) = delete;
  InBfloat16& operator=(const InBfloat16&) = delete;
};

// Autocast locks the casts that it has while it makes another, which is recorded, and from where
// the first step may verify what came before.
TEST(KernelChoice, H5OfAutocastInAnotherLibrarysOperatorIsThatOfTheForwardPass) {
  expect_same_in_every_mode([](const RunPart& run) {
    std::vector<at::Tensor> weights;
    for (int i = 0; i < 8; ++i) weights.push_back((torch::randn({32, 32}) * 0.2).requires_grad_());
    const auto x = torch::randn({32, 32});
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] {
        const InBfloat16 autocast;
        at::Tensor h = x;
        for (std::size_t i = 0; i < weights.size(); i += 2) {
          h = Mixed::apply(torch::gelu(at::linear(h, weights[i])).to(at::kFloat).sin(),
                           weights[i + 1]);
        }
        return h.to(at::kFloat);
      });
      y.pow(2).sum().backward();
      for (const at::Tensor& weight : weights) all.push_back(gradient_of(weight));
    }
    return all;
  });
}

// Attention that is recorded whole chooses its kernel when it runs.
TEST(KernelChoice, H5OfAttentionIsThatOfTheForwardPass) {
  auto& context = at::globalContext();
  expect_same_in_every_mode([&](const RunPart& run) {
    const auto weight = torch::randn({2, 2, 16, 16}).requires_grad_();
    for (int step = 0; step < kNumSteps; ++step) {
      const bool uses_flash = step % 2 == 0;
      context.setSDPUseFlash(uses_flash);
      const auto y = run([&] {
        return BelowAutograd::apply(weight.exp(), [](const at::Tensor& q) {
          return at::scaled_dot_product_attention(q, q, q);
        });
      });
      context.setSDPUseFlash(!uses_flash);
      y.backward();
      context.setSDPUseFlash(true);
    }
    return std::exchange(BelowAutograd::seen, {});
  });
}

// Below autograd matmul() folds its input by whether the other one needs a gradient. The first
// steps, where the weight is 0, do not show it.
TEST(KernelChoice, H5ByWhoNeedsAGradientIsThatOfTheForwardPass) {
  for (const bool starts_at_zero : {false, true}) {
    SCOPED_TRACE(starts_at_zero);
    expect_same_in_every_mode([&](const RunPart& run) {
      const auto weight = torch::randn({129}).requires_grad_();
      const auto x = torch::randn({33, 17, 129});
      for (int step = 0; step < 6; ++step) {
        if (starts_at_zero && step < 3) weight.detach().mul_(step == 2 ? 0 : 0);
        const auto fold = [&](const at::Tensor& w) { return at::matmul(x.transpose(0, 1), w); };
        run([&] { return BelowAutograd::apply(weight, fold); }).backward();
      }
      return std::exchange(BelowAutograd::seen, {});
    });
  }
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("add_to(Tensor x, *, Tensor(a!) out) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("add_to",
               [](const at::Tensor& x, at::Tensor& out) -> at::Tensor& { return out.add_(x); });
}

// Without weights, the running statistics decide which type those of the batch are made in.
TEST(KernelChoice, H5OfTheTypeOfStatisticsIsThatOfTheForwardPass) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    expect_same_in_every_mode([type](const RunPart& run) {
      const auto weight = torch::randn({8, 8}).to(type).requires_grad_();
      torch::nn::BatchNorm1d norm(torch::nn::BatchNormOptions(8).affine(false));
      Tensors all;
      for (int step = 0; step < 4; ++step) {
        const auto x = torch::randn({16, 8}).to(type);
        run([&] { return torch::relu(norm(x.mm(weight))).to(at::kFloat).sin(); }).sum().backward();
        all.push_back(gradient_of(weight));
        all.push_back(norm->running_mean.clone());
      }
      return all;
    });
  }
}

// Kernels choose by the layout of running statistics, too, which may be columns of a table.
TEST(KernelChoice, H5ByTheLayoutOfStatisticsIsThatOfTheForwardPass) {
  for (const bool is_training : {true, false}) {
    expect_same_in_every_mode([is_training](const RunPart& run) {
      const auto x = torch::randn({4, 6, 5, 5}).requires_grad_();
      const auto table = torch::rand({6, 4});
      const auto weight = torch::randn({6}).requires_grad_();
      Tensors all;
      for (int step = 0; step < 4; ++step) {
        run([&] {
          const auto y = torch::batch_norm((x * 2).sin(), weight, {}, table.select(1, 0),
                                           table.select(1, 1), is_training, 0.1, 1e-5, false);
          return y.sin() * y;
        })
            .sum()
            .backward();
        append(all, {gradient_of(x), gradient_of(weight), table.clone()});
      }
      return all;
    });
  }
}

/// Training with running statistics that `make` makes in the region, of a table with six rows.
void expect_same_with_statistics(
    const std::function<std::pair<at::Tensor, at::Tensor>(const at::Tensor& table)>& make) {
  expect_same_in_every_mode([&](const RunPart& run) {
    const auto x = torch::randn({4, 6, 5}).requires_grad_();
    const auto table = torch::rand({6, 4});
    const auto weight = torch::randn({6}).requires_grad_();
    const auto bias = torch::randn({6}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      run([&] {
        const auto [mean, variance] = make(table);
        const auto y =
            torch::batch_norm(x * 2, weight, bias, mean, variance, true, 0.1, 1e-5, false);
        return y.sin() * y;
      })
          .sum()
          .backward();
      append(all, {gradient_of(x), gradient_of(weight), gradient_of(bias), table.clone()});
    }
    return all;
  });
}

// LibTorch takes both or neither.
TEST(KernelChoice, H5OfTwoKindsOfStatisticsIsThatOfTheForwardPass) {
  using Pair = std::pair<at::Tensor, at::Tensor>;
  const auto dense = torch::rand({6});
  expect_same_with_statistics([&](const at::Tensor& t) { return Pair(t.select(1, 0), dense); });
  expect_same_with_statistics([&](const at::Tensor& t) { return Pair(dense, t.select(1, 0)); });
  expect_same_with_statistics([&](const at::Tensor&) { return Pair(dense, torch::ones(6) * 2); });
  expect_same_with_statistics([&](const at::Tensor&) { return Pair(torch::ones(6) * 2, dense); });
}

TEST(KernelChoice, H5BesideStatisticsInTheMemoryOfItsWeightIsThatOfTheForwardPass) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto x = torch::randn({16, 8}).requires_grad_();
    const auto memory = torch::rand({41});
    const auto count = memory.narrow(0, 40, 1);
    const auto part = [&](int i) { return memory.narrow(0, i * 8, 8).detach(); };
    const auto weight = part(0).requires_grad_();
    const auto bias = part(1).requires_grad_();
    const auto next = part(2).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      run([&] {
        count.add_(1);
        const auto y =
            torch::batch_norm(x * 2, weight, bias, part(3), part(4), true, 0.1, 1e-5, false);
        return (y.relu() * next).sin();
      })
          .sum()
          .backward();
      append(all, {gradient_of(x), gradient_of(weight), gradient_of(next), memory.clone()});
    }
    return all;
  });
}

// Another library's operator may go on from what it is given to write to.
TEST(KernelChoice, H2WhatAnotherLibraryWritesToIsReadToo) {
  const auto add_to = c10::Dispatcher::singleton()
                          .findSchemaOrThrow("gradrecomp_test::add_to", "")
                          .typed<at::Tensor&(const at::Tensor&, at::Tensor&)>();
  expect_same_in_every_mode(steps_of([&](const at::Tensor& hidden, int step) {
    const auto sum = torch::empty({15, 16});
    for (int i = 0; i < sum.numel(); ++i) {
      sum.mutable_data_ptr<float>()[i] = 0.01F * static_cast<float>(i + step);
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      auto out = sum;
      add_to.call(hidden.detach(), out);
    }
    return (hidden.exp() * sum).tanh().sum();
  }));
}

}  // namespace
}  // namespace gradrecomp::test
