#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

class Finished final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// One process that stands for two ranks with the same numbers. It writes through pointers.
class Twins final : public c10d::Backend {
 public:
  Twins() : c10d::Backend(0, 2) {}
  const std::string getBackendName() const override { return "twins"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor, 2);
    return c10::make_intrusive<Finished>();
  }
  // The other rank has something else to tell.
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<Tensor>& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    for (auto& tensor : tensors) scale(tensor, -0.5F);
    return c10::make_intrusive<Finished>();
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<Tensor>>& outputs,
                                           std::vector<Tensor>& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    for (auto& output : outputs[0]) {
      std::memcpy(output.data_ptr(), inputs[0].const_data_ptr(), inputs[0].nbytes());
    }
    return c10::make_intrusive<Finished>();
  }

 private:
  static void scale(Tensor& tensor, float factor) {
    auto* numbers = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers[i] *= factor;
  }
};

c10::intrusive_ptr<c10d::ProcessGroup> make_group() {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<Twins>());
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

c10d::ProcessGroup& group() {
  static const auto made = make_group();
  return *made;
}

enum Kind : std::int64_t { kReduce, kBroadcast, kPastTheDispatcher, kReduceACopy, kGather, kKinds };

Tensor communicated(const Tensor& x, std::int64_t kind) {
  std::vector<Tensor> tensors = {kind == kReduceACopy ? x.clone() : x};
  if (kind == kGather) {
    std::vector<std::vector<Tensor>> gathered = {{torch::empty_like(x), torch::empty_like(x)}};
    group().allgather(gathered, tensors)->wait();
    return gathered[0][0] + gathered[0][1].sin();
  }
  if (kind == kBroadcast) {
    group().broadcast(tensors)->wait();
  } else if (kind == kPastTheDispatcher) {
    group().getBackend(c10::kCPU)->allreduce(tensors)->wait();
  } else {
    group().allreduce(tensors)->wait();
  }
  return tensors[0];
}

/// As layers have it whose weights are split over ranks.
struct Communicate : torch::autograd::Function<Communicate> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, std::int64_t kind) {
    if (kind < kReduceACopy) context->mark_dirty({x});
    return communicated(x, kind);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], Tensor()};
  }
};

void collective(Machine& machine) {
  const auto x = (machine.pick_float() * 0.7).contiguous();
  machine.push(torch::tanh(Communicate::apply(x, machine.dice().below(kKinds))));
}

// Statistics over ranks, without autograd.
void summed_statistics(Machine& machine) {
  const auto x = machine.pick_float();
  std::vector<Tensor> sum = {x.detach().sum().reshape({1})};
  if (machine.dice().chance(0.3)) sum = {torch::ones({1})};
  group().allreduce(sum)->wait();
  machine.push(x * torch::tanh(sum[0]));
}

}  // namespace

std::vector<Operation> collective_operations() {
  return {{"collective", 4, collective}, {"summed_statistics", 2, summed_statistics}};
}

}  // namespace gradrecomp::fuzzing
