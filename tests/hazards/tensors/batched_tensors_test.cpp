// Conformance H5: tensors with a dimension that vmap hides from operators.
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/tensors/weight_steps.h"
#include "support/messages.h"

namespace gradrecomp::test {
namespace {

namespace functorch = at::functorch;

/// While it lives, operators on what it has batched do not see the first dimension.
class Vmap {
 public:
  explicit Vmap(std::int64_t size)
      : level_(functorch::initAndPushDynamicLayer(functorch::TransformType::Vmap, size,
                                                  functorch::RandomnessType::Different)) {}
  ~Vmap() { functorch::popDynamicLayerAndDeleteMetadata(); }
  Vmap(const Vmap&) = delete;
  Vmap& operator=(const Vmap&) = delete;

  [[nodiscard]] at::Tensor batch(const at::Tensor& whole) const {
    return functorch::addBatchDim(whole, 0, level_);
  }
  [[nodiscard]] at::Tensor whole(const at::Tensor& batched) const {
    const auto* impl = functorch::maybeGetBatchedImpl(batched);
    TORCH_CHECK(impl != nullptr && impl->level() == level_, "is not of this level");
    return impl->value().movedim(impl->bdim(), 0);
  }

 private:
  std::int64_t level_;
};

at::Tensor mapped(const at::Tensor& row, const at::Tensor& weight) {
  const auto h = (row.sin() * row.exp()).softmax(0);
  return torch::dropout(torch::mv(weight, h).tanh(), 0.5, true) * row;
}

TEST(BatchedTensor, H5OfARegionIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    at::Tensor made;
    {
      const Vmap vmap(h.size(0));
      const auto row = vmap.batch(h);
      EXPECT_EQ(row.dim(), 1);
      made = vmap.whole(mapped(row, weight));
    }
    return made.exp() * h.sin();
  }));
}

TEST(BatchedTensor, H5WithALayerInALayerIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const Vmap outer(x.size(0));
    const auto row = outer.batch(x.mm(weight).tanh());
    at::Tensor made;
    {
      const Vmap inner(x.size(1));
      made = inner.whole(inner.batch(row).sin().exp());
    }
    return outer.whole(made * row).tanh();
  }));
}

// Its code sees batched tensors alone.
TEST(BatchedTensor, H5MayBeAllThatARegionSees) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = (torch::randn({6, 6}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      at::Tensor y;
      {
        const Vmap vmap(4);
        const auto row = vmap.batch(x);
        y = vmap.whole(run([&] { return mapped(row, weight).sin(); }));
      }
      y.sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

// Random numbers that a replay draws again are not those of a batch.
TEST(BatchedTensor, H5ReplaysInsideOfVmapAreThoseOfTheForwardPass) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = (torch::randn({6, 6}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      const auto y = run([&] { return torch::dropout(x.mm(weight).tanh(), 0.5, true).exp(); });
      const auto sum = y.sum();
      {
        const Vmap vmap(4);
        sum.backward();
      }
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

// The recorder sees what they do on whole tensors.
TEST(BatchedTensor, H5OperatorsOnItAreReplayed) {
  const auto weight = torch::randn({6, 6}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    weight.mutable_grad() = at::Tensor();
    const auto y = region.run([&] {
      const Vmap vmap(6);
      return vmap.whole(vmap.batch(weight).sin().exp().tanh());
    });
    y.sum().backward();
  }
  EXPECT_EQ(region.last_step().num_unrecorded_calls, 0);
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

/// While it lives, what is computed from tensors that it has wrapped is differentiated by it.
class GradLevel {
 public:
  GradLevel()
      : level_(functorch::initAndPushDynamicLayer(functorch::TransformType::Grad, std::nullopt,
                                                  std::nullopt, c10::GradMode::is_enabled())) {}
  ~GradLevel() { functorch::popDynamicLayerAndDeleteMetadata(); }
  GradLevel(const GradLevel&) = delete;
  GradLevel& operator=(const GradLevel&) = delete;

  [[nodiscard]] at::Tensor wrap(const at::Tensor& tensor) const {
    return functorch::makeTensorWrapper(tensor, level_);
  }
  [[nodiscard]] static at::Tensor unwrap(const at::Tensor& wrapped) {
    return functorch::maybeGetTensorWrapper(wrapped)->value();
  }

 private:
  std::int64_t level_;
};

// What kernels are tried on is the tape's own, and none of the transform's. Autograd saves what the
// transform has wrapped, so nothing is dropped.
TEST(TransformedTensor, H5OfARegionWithinATransformIsVerifiedWithoutWarnings) {
  WarningLog log;
  Region region({.policy = "drop_all"});
  const auto x = torch::randn({32, 32});
  const auto gradient = [&](Region* in) {
    torch::manual_seed(2);
    const GradLevel level;
    const auto wrapped = level.wrap(x).requires_grad_();
    const auto body = [&] {
      const auto h = torch::layer_norm(wrapped * 0.5, {32}).relu() * 2;
      return torch::dropout(h, 0.3, true).sin();
    };
    const auto y = in != nullptr ? in->run(body) : body();
    return GradLevel::unwrap(torch::autograd::grad({y.pow(2).sum()}, {wrapped}).front());
  };
  const auto plain = gradient(nullptr);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(at::equal(plain, gradient(&region))) << step;
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace gradrecomp::test
