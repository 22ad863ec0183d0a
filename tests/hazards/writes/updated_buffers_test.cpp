// Conformance H17: buffers that a region updates and reads, of which two forward passes come before
// backward.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

/// How many elements the buffer has, and the storage that it ends.
struct Sizes {
  std::int64_t buffer = 8;
  std::int64_t storage = 8;
};

/// What a forward pass has beside its input.
struct State {
  explicit State(const Sizes& sizes)
      : buffer((torch::rand({sizes.storage}) + 1)
                   .narrow(0, sizes.storage - sizes.buffer, sizes.buffer)) {}

  at::Tensor weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
  at::Tensor buffer;
  torch::nn::Embedding embedding{torch::nn::EmbeddingOptions(6, 8).max_norm(1.0)};
};

using ForwardPass = std::function<at::Tensor(State& state, const at::Tensor& x)>;

struct Variant {
  bool second_has_gradients = true;
  Sizes sizes = {};
};

void expect_same_with_two_in_flight(const ForwardPass& forward, const Variant& variant = {}) {
  expect_same_in_every_mode([=](const RunPart& run) {
    State state(variant.sizes);
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto first = run([&] { return forward(state, torch::randn({5, 8})); });
      at::Tensor second;
      {
        const torch::AutoGradMode mode(variant.second_has_gradients);
        second = run([&] { return forward(state, torch::randn({5, 8})); });
      }
      (first.sum() - second.square().sum()).backward();
      all.push_back(gradient_of(state.weight));
      if (state.embedding->weight.requires_grad()) {
        all.push_back(gradient_of(state.embedding->weight));
      }
      all.push_back(state.buffer.clone());
    }
    return all;
  });
}

TEST(UpdatedBuffer, H17ThatCountsStepsServesTwoForwardPasses) {
  const ForwardPass scaled = [](State& state, const at::Tensor& x) {
    const auto h = x.mm(state.weight);
    state.buffer.add_(1);
    return (h.sin() * (state.buffer * 2)).sin() * torch::rsqrt(state.buffer);
  };
  expect_same_with_two_in_flight(scaled);
  expect_same_with_two_in_flight(scaled, {.second_has_gradients = false});
}

/// As spectral normalisation does.
at::Tensor normalised(State& state, const at::Tensor& x) {
  at::Tensor& u = state.buffer;
  {
    const torch::NoGradGuard no_grad;
    const auto next = state.weight.mv(u);
    u.copy_(next / next.norm());
  }
  const auto used = u.clone();
  return torch::tanh(x.mm(state.weight / (state.weight.mv(used) * used.sin()).sum()));
}

TEST(UpdatedBuffer, H17OfWhichAForwardPassUsesAClone) {
  expect_same_with_two_in_flight(normalised);
}

TEST(UpdatedBuffer, H17InALargeStorageOfWhichAForwardPassUsesAClone) {
  expect_same_with_two_in_flight(normalised, {.sizes = {.storage = 40'000}});
}

TEST(UpdatedBuffer, H17ThatIsLargeOfWhichAForwardPassUsesAClone) {
  const ForwardPass attends = [](State& state, const at::Tensor& x) {
    const auto keys = x.mm(state.weight).view({1, 40});
    {
      const torch::NoGradGuard no_grad;
      state.buffer.narrow(0, 40, 40).copy_(keys.view(40));
    }
    return keys.mm(state.buffer.clone().view({-1, 40}).t()).softmax(1).log();
  };
  expect_same_with_two_in_flight(attends, {.sizes = {.buffer = 40'000, .storage = 40'000}});
}

TEST(UpdatedBuffer, H17OfMovingMeansServesTwoForwardPasses) {
  expect_same_with_two_in_flight([](State& state, const at::Tensor& x) {
    const auto h = x.mm(state.weight);
    state.buffer.mul_(0.9).add_(h.detach().mean(0), 0.1);
    return (h - state.buffer).tanh() * (state.buffer.narrow(0, 2, 3).exp().sum() * h).sin();
  });
}

// What is made of one may be just as large.
TEST(UpdatedBuffer, H17ThatIsLargeOfMovingMeansServesTwoForwardPasses) {
  const ForwardPass renormalised = [](State& state, const at::Tensor& x) {
    const auto h = x.mm(state.weight).mean() * torch::ones({40'000});
    state.buffer.mul_(0.9).add_(h.detach(), 0.1);
    return (h * (state.buffer + 1e-5).rsqrt()).sigmoid().square();
  };
  expect_same_with_two_in_flight(renormalised, {.sizes = {.buffer = 40'000, .storage = 40'000}});
}

TEST(UpdatedBuffer, H17InListsServesTwoForwardPasses) {
  expect_same_with_two_in_flight([](State& state, const at::Tensor& x) {
    const auto h = x.mm(state.weight);
    state.buffer.mul_(1.1);
    const auto stacked = torch::stack({state.buffer, h.select(0, 0).detach()}) * 2;
    const auto both = torch::cat({h, state.buffer.unsqueeze(0), stacked});
    const auto scaled = at::_foreach_mul({state.buffer}, 0.5).front();
    return both.sin() * scaled;
  });
}

TEST(UpdatedBuffer, H17WithGapsServesTwoForwardPasses) {
  expect_same_with_two_in_flight([](State& state, const at::Tensor& x) {
    const auto h = x.mm(state.weight);
    state.buffer.mul_(1.1);
    const auto every_other = state.buffer.slice(0, 0, 8, 2) * 2;
    const auto overlapping = state.buffer.unfold(0, 4, 1).sin().sum();
    const auto repeated = state.buffer.expand({5, 8}) * 0.5;
    return (h.sin() * repeated).sin() * torch::cat({every_other, every_other}) * overlapping;
  });
}

TEST(UpdatedBuffer, H17ThatALoopRewritesServesTwoForwardPasses) {
  expect_same_with_two_in_flight([](State& state, const at::Tensor& x) {
    auto h = x.mm(state.weight);
    for (int i = 0; i < 3; ++i) {
      h = (h + state.buffer.cos()).tanh();
      state.buffer.copy_(h.detach().mean(0));
      h = h * state.buffer.sin();
    }
    return h.exp();
  });
}

TEST(UpdatedBuffer, H17RowsOfAMaximalNormServeTwoForwardPasses) {
  for (const bool is_frozen : {false, true}) {
    const ForwardPass embedded = [=](State& state, const at::Tensor& x) {
      state.embedding->weight.requires_grad_(!is_frozen);
      return (x.mm(state.weight).sin() * state.embedding(torch::arange(5))).sin();
    };
    expect_same_with_two_in_flight(embedded);
    expect_same_with_two_in_flight(embedded, {.second_has_gradients = false});
  }
}

// Of each content of the buffer a replay would need a copy. What is made of it is smaller.
TEST(UpdatedBuffer, H17IsReadAsItIsAndConjugated) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = torch::randn({4, 4}).requires_grad_();
    const auto matrix = torch::randn({4, 4}, torch::kComplexFloat);
    const auto buffer = torch::randn({4, 4}, torch::kComplexFloat);
    const auto forward = [&] {
      {
        const torch::NoGradGuard no_grad;
        buffer.mul_(0.9);
      }
      const auto h = (weight * 2).sin();
      const auto as_it_is = h * matrix.mm(buffer);
      const auto conjugated = h.cos() * matrix.mm(buffer.conj());
      const auto adjoint = h.exp() * matrix.mm(buffer.mH());
      return torch::real(as_it_is + conjugated + adjoint).sum();
    };
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      run(forward).backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Its steps must be plain's, in less memory than `num_bytes`.
void expect_little_memory(std::int64_t num_bytes, const at::Tensor& weight,
                          const std::function<at::Tensor()>& forward) {
  const auto step = [&](Region* region) {
    const MemoryMeter meter(c10::kCPU);
    (region != nullptr ? region->run(forward) : forward()).backward();
    EXPECT_LT(meter.measured_peak_bytes(), num_bytes);
    const auto gradient = gradient_of(weight);
    return gradient.is_sparse() ? gradient.to_dense() : gradient;
  };
  const auto plain = step(nullptr);
  for (const char* policy : {"keep_all", "drop_all"}) {
    Region region({.policy = policy});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(step(&region), plain)) << policy;
  }
}

TEST(UpdatedBuffer, H17ThatIsLargeIsNotCopiedWhereLittleIsMadeOfIt) {
  const auto weight = torch::linspace(-1, 1, 8).requires_grad_();
  const auto buffer = torch::empty({1 << 18});
  expect_little_memory(static_cast<std::int64_t>(buffer.nbytes()), weight, [&] {
    buffer.zero_();
    at::Tensor h = weight.sin();
    for (int i = 0; i < 20; ++i) {
      {
        const torch::NoGradGuard no_grad;
        buffer.mul_(0.9).narrow(0, 0, 8).add_(h.detach(), 0.1);
      }
      h = (h * 0.9 + buffer.mean()).tanh();
    }
    return h.sum();
  });
}

TEST(UpdatedBuffer, H17OfWhichPartsAreCopiedIsNotCopiedForEachWrite) {
  const auto weight = torch::rand({64, 64}).requires_grad_();
  const auto ring = torch::zeros({4096, 64});
  expect_little_memory(static_cast<std::int64_t>(ring.nbytes()), weight, [&] {
    ring.zero_();
    const auto input = torch::ones({16, 64});
    at::Tensor loss = torch::zeros({});
    for (int i = 0; i < 10; ++i) {
      {
        const torch::NoGradGuard no_grad;
        ring.narrow(0, i * 16, 16).copy_((input + i).mm(weight));
      }
      const auto row = ring.narrow(0, i * 16, 1).clone();
      loss = loss + row.mm(weight).sin().sum();
    }
    return loss;
  });
}

// Each lookup makes the rows that it looks up shorter before it reads them.
TEST(UpdatedBuffer, H17TableOfAMaximalNormIsNotCopiedForEachLookup) {
  const auto table = torch::rand({1 << 14, 16}).requires_grad_();
  const auto options = torch::nn::functional::EmbeddingFuncOptions().max_norm(1.0).sparse(true);
  expect_little_memory(static_cast<std::int64_t>(table.nbytes()), table, [&] {
    at::Tensor h = torch::zeros({4, 16});
    for (int i = 0; i < 10; ++i) {
      const auto rows = torch::tensor({i, 2 * i, 3 * i, 4 * i});
      h = (h + torch::nn::functional::embedding(rows, table, options)).tanh();
    }
    return h.sum();
  });
}

}  // namespace
}  // namespace gradrecomp::test
