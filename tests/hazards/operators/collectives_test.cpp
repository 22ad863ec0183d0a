// Conformance H4: collectives, most of which write in place, though their schemas do not say so.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Functional.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "gradrecomp/region.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

class Done final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// A group of ranks that all hold the same: sums are multiples. Writes past the dispatcher, and
/// counts its calls, as other ranks would wait for one too many for good.
class EqualRanks final : public c10d::Backend {
 public:
  explicit EqualRanks(int size) : c10d::Backend(0, size) {}
  const std::string getBackendName() const override { return "equal"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor);
    return done();
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor);
    return done();
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    for (auto& output : outputs[0]) {
      std::memcpy(output.data_ptr(), inputs[0].const_data_ptr(), inputs[0].nbytes());
    }
    return done();
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(
      at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& /*options*/) override {
    for (int rank = 0; rank < getSize(); ++rank) {
      std::memcpy(static_cast<char*>(output.data_ptr()) + rank * input.nbytes(),
                  input.const_data_ptr(), input.nbytes());
    }
    return done();
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    return done();
  }

  static inline std::int64_t num_calls = 0;

 private:
  static c10::intrusive_ptr<c10d::Work> done() {
    ++num_calls;
    return c10::make_intrusive<Done>();
  }
  void scale(at::Tensor& tensor) const {
    auto* numbers = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers[i] *= static_cast<float>(getSize());
  }
};

constexpr const char* kGroup = "equal ranks";

c10::intrusive_ptr<c10d::ProcessGroup> make_group() {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<EqualRanks>(2));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  group->setGroupName(kGroup);
  c10d::register_process_group(kGroup, group);
  return group;
}

c10d::ProcessGroup& group() {
  static const auto made = make_group();
  return *made;
}

enum class Kind {
  reduce,
  reduce_a_copy,
  broadcast,
  gather,
  past_the_dispatcher,
  functional,           ///< by LibTorch's functions for what gives a result of its own
  functional_operator,  ///< and by the operators that compiled code calls for it
  barrier,
};

bool is_in_place(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::past_the_dispatcher;
}

at::Tensor all_reduced_by_operators(const at::Tensor& x) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static const auto reduce = dispatcher.findSchemaOrThrow("_c10d_functional::all_reduce", "");
  static const auto wait = dispatcher.findSchemaOrThrow("_c10d_functional::wait_tensor", "")
                               .typed<at::Tensor(const at::Tensor&)>();
  // Boxed, as the types of its other arguments depend on LibTorch's version.
  torch::jit::Stack stack = {x, "sum", kGroup};
  reduce.callBoxed(&stack);
  return wait.call(stack.front().toTensor());
}

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
    case Kind::functional:
      return c10d::wait_tensor(c10d::all_reduce(x, "sum", kGroup));
    case Kind::functional_operator:
      return all_reduced_by_operators(x);
    case Kind::barrier:
      group().barrier()->wait();
      return x.clone();
  }
  return x;
}

/// As a layer whose weights are split over ranks has it: reduced in forward, passed in backward.
struct Reduce : torch::autograd::Function<Reduce> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, int kind) {
    if (is_in_place(static_cast<Kind>(kind))) context->mark_dirty({x});
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
    static_cast<void>(group());
    const std::int64_t calls_before = EqualRanks::num_calls;
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
    all.push_back(torch::full({}, EqualRanks::num_calls - calls_before));
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Collectives,
    ::testing::Combine(::testing::Values(Kind::reduce, Kind::reduce_a_copy, Kind::broadcast,
                                         Kind::gather, Kind::past_the_dispatcher, Kind::functional,
                                         Kind::functional_operator, Kind::barrier),
                       ::testing::Bool()));

/// Steps that have `write` write to what autograd follows, by its memory.
HostileProgram steps_that_write(
    const std::function<void(at::Tensor target, const at::Tensor& source)>& write) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
    static_cast<void>(group());
    const std::int64_t calls_before = EqualRanks::num_calls;
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      const auto y = run([&] {
        const auto h = x.mm(weight);
        const auto read_before = h + 1;  // of which autograd saves nothing
        write(h.detach(), x.narrow(0, 0, 4));
        return h.exp().sin() + read_before.tanh();
      });
      y.sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(gradient_of(weight));
    }
    all.push_back(torch::full({}, EqualRanks::num_calls - calls_before));
    return all;
  };
}

// Where no step is verified, nothing but the operator's name tells of it: no version grows, and
// what autograd follows is not compared.
TEST(Collectives, H4InPlaceOnWhatAutogradFollowsAreWrites) {
  expect_same_in_every_mode(steps_that_write([](at::Tensor target, const at::Tensor&) {
    std::vector<at::Tensor> tensors = {std::move(target)};
    group().allreduce(tensors)->wait();
  }));
  expect_same_in_every_mode(steps_that_write([](at::Tensor target, const at::Tensor&) {
    std::vector<at::Tensor> tensors = {std::move(target)};
    group().broadcast(tensors)->wait();
  }));
  expect_same_in_every_mode(steps_that_write([](at::Tensor target, const at::Tensor& source) {
    std::vector<std::vector<at::Tensor>> outputs = {
        {target.narrow(0, 0, 4), target.narrow(0, 4, 4)}};
    std::vector<at::Tensor> inputs = {source};
    group().allgather(outputs, inputs)->wait();
  }));
  expect_same_in_every_mode(steps_that_write([](at::Tensor target, at::Tensor source) {
    group()._allgather_base(target, source)->wait();
  }));
}

TEST(Collectives, H4BarriersHinderNoPlan) {
  const auto weight = torch::randn({8, 8}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    const auto y = region.run([&] {
      const auto h = weight.tanh();
      group().barrier()->wait();
      return h.exp().sin();
    });
    const std::int64_t calls_before = EqualRanks::num_calls;
    y.sum().backward();
    EXPECT_EQ(EqualRanks::num_calls, calls_before);
  }
  EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

}  // namespace
}  // namespace gradrecomp::test
