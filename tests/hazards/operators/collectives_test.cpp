// Conformance H4: collectives that write in place, whose schemas do not say so.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

class Done final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// A group of ranks that all hold the same: sums are multiples. Writes past the dispatcher.
class EqualRanks final : public c10d::Backend {
 public:
  explicit EqualRanks(int size) : c10d::Backend(0, size) {}
  const std::string getBackendName() const override { return "equal"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor);
    return c10::make_intrusive<Done>();
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor);
    return c10::make_intrusive<Done>();
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    for (auto& output : outputs[0]) {
      std::memcpy(output.data_ptr(), inputs[0].const_data_ptr(), inputs[0].nbytes());
    }
    return c10::make_intrusive<Done>();
  }

 private:
  void scale(at::Tensor& tensor) const {
    auto* numbers = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers[i] *= static_cast<float>(getSize());
  }
};

c10::intrusive_ptr<c10d::ProcessGroup> make_group() {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<EqualRanks>(2));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

c10d::ProcessGroup& group() {
  static const auto made = make_group();
  return *made;
}

enum class Kind { reduce, reduce_a_copy, broadcast, gather, past_the_dispatcher };

at::Tensor communicate(at::Tensor x, Kind kind) {
  std::vector<at::Tensor> tensors = {x};
  switch (kind) {
    case Kind::reduce:
      group().allreduce(tensors)->wait();
      return x;
    case Kind::reduce_a_copy:
      tensors[0] = x.clone();
      group().allreduce(tensors)->wait();
      return tensors[0];
    case Kind::broadcast:
      group().broadcast(tensors)->wait();
      return x;
    case Kind::gather: {
      std::vector<std::vector<at::Tensor>> gathered = {
          {torch::empty_like(x), torch::empty_like(x)}};
      group().allgather(gathered, tensors)->wait();
      return gathered[0][0] + gathered[0][1].sin();
    }
    case Kind::past_the_dispatcher:
      group().getBackend(c10::kCPU)->allreduce(tensors)->wait();
      return x;
  }
  return x;
}

/// As a layer whose weights are split over ranks has it: reduced in forward, passed in backward.
struct Reduce : torch::autograd::Function<Reduce> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, int kind) {
    const bool in_place =
        kind != static_cast<int>(Kind::reduce_a_copy) && kind != static_cast<int>(Kind::gather);
    if (in_place) context->mark_dirty({x});
    return communicate(x, static_cast<Kind>(kind));
  }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    return {gradients[0], at::Tensor()};
  }
};

class Collectives : public ::testing::TestWithParam<std::tuple<Kind, bool>> {};

TEST_P(Collectives, H4InPlaceAreWritesAndNeverReplayed) {
  const auto [kind, from_zero] = GetParam();
  expect_same_in_every_mode([kind = kind, from_zero = from_zero](const RunPart& run) {
    Tensors weights;
    for (int layer = 0; layer < 3; ++layer) {
      weights.push_back((torch::randn({8, 12}) * 0.3).requires_grad_());
      // Sums of nothing look replayable to the first step.
      auto out = from_zero ? torch::zeros({12, 8}) : torch::randn({12, 8}) * 0.3;
      weights.push_back(out.requires_grad_());
    }
    const auto data = torch::randn({4, 8});
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto y = run([&] {
        auto x = data;
        for (std::size_t i = 0; i < weights.size(); i += 2) {
          auto out = torch::gelu(x.mm(weights[i])).mm(weights[i + 1]);
          x = x + torch::tanh(Reduce::apply(out, static_cast<int>(kind)));
        }
        return x;
      });
      (y * y).sum().backward();
      const torch::NoGradGuard no_grad;
      for (auto& weight : weights) {
        all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
        weight.sub_(all.back(), 0.01);
      }
    }
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Collectives,
                         ::testing::Combine(::testing::Values(Kind::reduce, Kind::reduce_a_copy,
                                                              Kind::broadcast, Kind::gather,
                                                              Kind::past_the_dispatcher),
                                            ::testing::Bool()));

}  // namespace
}  // namespace gradrecomp::test
