// Conformance H2, H4, H17: writes to what an earlier window of a first step has verified and left.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/writes/dirty_add.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;
constexpr int kNumLayers = 20;  // of several windows

/// What layers of one weight have in common.
struct Stack {
  at::Tensor x = torch::randn({16, 32});
  at::Tensor weight = (torch::randn({32, 32}) * 0.3).requires_grad_();

  [[nodiscard]] at::Tensor layers(at::Tensor h, int count) const {
    for (int i = 0; i < count; ++i) h = torch::tanh(h.mm(weight));
    return h;
  }
};

/// Gradients of several steps of a `body` that runs in the region.
HostileProgram steps_of(const std::function<at::Tensor(const Stack&)>& body) {
  return [=](const RunPart& run) {
    const Stack stack;
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] { return body(stack); });
      y.backward();
      all.push_back(gradient_of(stack.weight));
    }
    return all;
  };
}

/// A write that nothing reports is found where steps are verified.
void expect_same_where_verified(const HostileProgram& program) {
  const WarningLog quiet;
  torch::manual_seed(7);
  const Tensors plain = program([](const auto& body) { return body(); });
  for (const auto window_bytes : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
    for (const Verify verify : {Verify::first_step, Verify::every_n_steps}) {
      for (Options options :
           {Options{.policy = "drop_all"}, Options{.policy = "drop_all", .guard = Guard::off},
            Options{.policy = "every_2"},
            Options{.max_overhead = 0.3, .cost = plan::CostModel::flops},
            Options{.max_overhead = 0.05, .cost = plan::CostModel::flops}}) {
        options.verify = verify;
        options.verify_interval_steps = 2;
        options.window_bytes = window_bytes;
        Region region(options);
        torch::manual_seed(7);
        expect_same_bits(plain, program([&](const auto& body) { return region.run(body); }));
      }
    }
  }
}

TEST(BoundaryWrite, H2ByAPointerIsFoundAfterItsWindowWasVerified) {
  expect_same_where_verified(steps_of([](const Stack& stack) {
    const auto v = stack.x.mm(stack.weight);
    const auto h = stack.layers(v.exp(), kNumLayers);
    v.data_ptr<float>()[0] = 1.25F;
    return h.sum() + v.sin().sum();
  }));
}

TEST(BoundaryWrite, H2ByAPointerAfterItsLastReadIsFound) {
  expect_same_where_verified(steps_of([](const Stack& stack) {
    const auto v = stack.x.mm(stack.weight);
    const auto h = stack.layers(v.exp(), kNumLayers);
    v.data_ptr<float>()[0] = 1.25F;
    return torch::cat({h, v}).sin().sum();
  }));
  expect_same_where_verified([](const RunPart& run) {
    const Stack stack;
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      at::Tensor v;
      const auto y = run([&] {
        v = stack.x.mm(stack.weight);
        const auto h = stack.layers(v.exp(), kNumLayers);
        v.data_ptr<float>()[0] = 1.25F;
        return h;
      });
      (y.sum() + v.sin().sum()).backward();
      all.push_back(gradient_of(stack.weight));
    }
    return all;
  });
}

TEST(BoundaryWrite, H2ByAPointerBeforeAnOperatorsIsFound) {
  expect_same_where_verified(steps_of([](const Stack& stack) {
    auto sum = stack.x.mm(stack.weight);
    at::Tensor h = stack.x;
    for (int i = 0; i < kNumLayers; ++i) {
      h = stack.layers(h, 1);
      if (i == kNumLayers / 2) sum.data_ptr<float>()[0] = 3;
      sum.add_(h);
      h = h + (sum * 0.1).sin();
    }
    return h.sum();
  }));
}

// What is made again for the inner pass must not begin from the memory as it is now.
TEST(BoundaryWrite, H17ByAFunctionThatSaysSoComesBeforeABackwardInTheRegion) {
  expect_same_in_every_mode(steps_of([](const Stack& stack) {
    const auto v = stack.x.mm(stack.weight);
    const auto h = stack.layers(v.exp(), kNumLayers);
    DirtyAdd::apply(v.detach());
    const auto late = v.detach().sin();
    const auto inner = torch::autograd::grad({h.sum()}, {stack.weight}, {}, true)[0];
    return h.sum() + (inner.detach() * stack.weight).sum() + late.sum();
  }));
}

/// Steps that read a buffer from outside, in one window, and have it written by `write` in another.
HostileProgram written_buffer(const std::function<void(const at::Tensor& buffer)>& write,
                              bool writes_before) {
  return [=](const RunPart& run) {
    const Stack stack;
    const auto buffer = torch::rand({16, 32});
    const auto start = buffer.clone();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      buffer.copy_(start);
      const auto y = run([&] {
        const auto write_to = [&](const auto& how) {
          const torch::NoGradGuard no_grad;
          how(buffer);
        };
        if (writes_before) write_to(write);
        auto h = stack.layers(stack.x, 3);
        write_to([&](const at::Tensor& t) { t.mul_(0.9).add_(h.detach(), 0.05); });
        h = stack.layers(h * buffer.clone() + buffer.sin(), kNumLayers / 2);
        write_to(write);
        return stack.layers(h, 4).sum();
      });
      y.backward();
      all.push_back(gradient_of(stack.weight));
      all.push_back(buffer.clone());
    }
    return all;
  };
}

TEST(BoundaryWrite, H17ByAnOperatorOnASparseTensorIsExact) {
  const auto sparse = torch::sparse_coo_tensor(torch::tensor({{0, 3}, {5, 7}}),
                                               torch::tensor({1.5F, -2.F}), {16, 32})
                          .coalesce();
  for (const bool writes_before : {false, true}) {
    expect_same_in_every_mode(
        written_buffer([&](const at::Tensor& buffer) { buffer.add_(sparse); }, writes_before));
  }
}

/// Sparse tensors whose elements are those of the vector that they are made of.
std::vector<std::function<at::Tensor(const at::Tensor&)>> sparse_kinds() {
  return {
      [](const at::Tensor& values) {
        const auto index = torch::arange(values.numel());
        return torch::sparse_coo_tensor(index.unsqueeze(0), values, {values.numel()})
            ._coalesced_(true);
      },
      [](const at::Tensor& values) {
        const auto rows = torch::arange(values.numel() + 1);
        const auto columns = torch::zeros({values.numel()}, torch::kLong);
        return torch::sparse_csr_tensor(rows, columns, values, {values.numel(), 1},
                                        values.options().layout(torch::kSparseCsr));
      },
  };
}

/// Later steps write something else than those before.
HostileProgram written_below_a_sparse_tensor(
    const std::function<at::Tensor(const at::Tensor&)>& sparse, bool is_external) {
  return [=](const RunPart& run) {
    auto weight = (torch::randn({64}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      auto outside = torch::randn({64});
      const auto y = run([&] {
        const auto written = is_external ? outside : weight.sin();
        const auto before = written.exp();
        const auto both = (before * weight).tanh();
        {
          const torch::NoGradGuard no_grad;
          auto elements = sparse(written.detach());
          if (elements.is_sparse()) elements.div_(step < 2 ? 1. : 2.);
          elements.neg_();
        }
        return both * before + written.cos() * weight;
      });
      y.pow(2).sum().backward();
      all.push_back(gradient_of(weight));
      all.push_back(outside);
    }
    return all;
  };
}

TEST(BoundaryWrite, H17ByAnOperatorOnASparseTensorOverItIsExact) {
  for (const auto& sparse : sparse_kinds()) {
    for (const bool is_external : {false, true}) {
      expect_same_in_every_mode(written_below_a_sparse_tensor(sparse, is_external));
    }
  }
}

TEST(BoundaryWrite, H4NotedInTimeIsExact) {
  const auto write = [](const at::Tensor& buffer) {
    note_write(buffer);
    buffer.data_ptr<float>()[1] = 3;
  };
  for (const bool writes_before : {false, true}) {
    expect_same_in_every_mode(written_buffer(write, writes_before));
  }
}

}  // namespace
}  // namespace gradrecomp::test
