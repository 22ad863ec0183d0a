// Conformance H3, H17: parts of one storage, of which the program writes those that no replay
// reads.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

/// Square weights that lie in one buffer, each a leaf with a version counter of its own.
struct FlatWeights {
  FlatWeights(int count, std::int64_t width) : flat(torch::randn({count * width * width}) * 0.1) {
    for (int i = 0; i < count; ++i) {
      auto weight = torch::empty({0});
      weight.set_data(flat.narrow(0, i * width * width, width * width).view({width, width}));
      weights.push_back(weight.requires_grad_());
    }
  }

  at::Tensor flat;
  std::vector<at::Tensor> weights;
};

/// Steps that update each weight as soon as backward has its gradient.
HostileProgram updated_in_backward(std::int64_t width,
                                   void (*update)(const at::Tensor& weight, const at::Tensor& by)) {
  return [=](const RunPart& run) {
    FlatWeights model(4, width);
    for (const at::Tensor& weight : model.weights) {
      // Of the same counter, but does not hold the weight itself, whose hook this is.
      weight.register_hook([same = weight.detach(), update](const at::Tensor& gradient) {
        update(same, gradient * 0.1);
      });
    }
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({4, width});
      const auto y = run([&] {
        auto h = x;
        for (const at::Tensor& weight : model.weights) h = torch::tanh(h.mm(weight.sin()));
        return h;
      });
      y.pow(2).sum().backward();
      for (const at::Tensor& weight : model.weights) all.push_back(gradient_of(weight));
      all.push_back(model.flat.clone());
    }
    return all;
  };
}

TEST(SharedStorage, H17WeightsUpdatedInBackwardLeaveThoseBesideThemAsTheyWere) {
  for (const std::int64_t width : {16, 160}) {
    expect_same_in_every_mode(updated_in_backward(
        width, [](const at::Tensor& weight, const at::Tensor& by) { weight.sub_(by); }));
  }
}

TEST(SharedStorage, H3WeightsUpdatedPastTheirVersionsLeaveThoseBesideThemAsTheyWere) {
  for (const std::int64_t width : {16, 160}) {
    expect_same_in_every_mode(updated_in_backward(
        width, [](const at::Tensor& weight, const at::Tensor& by) { weight.data().sub_(by); }));
  }
}

/// Batches in a ring, of which a loader fills the others while a step runs.
TEST(SharedStorage, H3SlotsOfARingMayBeFilledBesideTheOneThatIsRead) {
  constexpr std::int64_t kNumSlots = 4;
  for (const std::int64_t width : {16, 400}) {
    expect_same_in_every_mode([=](const RunPart& run) {
      auto weight = (torch::randn({width, 8}) * 0.3).requires_grad_();
      const auto ring = torch::randn({kNumSlots, 64, width});
      const auto fill_others = [&](std::int64_t slot) {
        for (std::int64_t i = 0; i < kNumSlots; ++i) {
          if (i != slot) std::fill_n(ring[i].data_ptr<float>(), 64 * width, 0.1F * (i + 1));
        }
      };
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        const std::int64_t slot = step % kNumSlots;
        const auto y = run([&] {
          const auto h = ring[slot].sin().mm(weight);
          fill_others(slot);
          return torch::tanh(h + ring[slot].exp().mm(weight));
        });
        fill_others(slot);
        y.sum().backward();
        all.push_back(gradient_of(weight));
      }
      return all;
    });
  }
}

/// Saves `data`, which its backward pass does not look at.
struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& data) {
    context->save_for_backward({data});
    return x * 2;
  }
  static Tensors backward(torch::autograd::AutogradContext* /*context*/, const Tensors& gradients) {
    return {gradients[0] * 2, at::Tensor()};
  }
};

// One number of many, which the samples that are compared do not have among them.
void double_one_number(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  tensor.narrow(0, 12'345, 1).mul_(2);
}

TEST(SharedStorage, H17WritesByATensorThatNoOperatorReadsAreSeen) {
  const HostileProgram program = [](const RunPart& run) {
    const auto x = torch::randn({60'000});
    const auto data = x.data();
    auto weight = torch::randn({60'000}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] {
        const auto scaled = torch::sin(weight * x.sin());
        const auto doubled = Doubled::apply(weight, data);
        return torch::tanh(x.cos() * scaled) * doubled;
      });
      double_one_number(data);
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
  EXPECT_GT(expect_same_or_error_in_every_mode(program, {.text = "modified by an inplace"}), 0);
}

TEST(SharedStorage, H17WritesByABufferOfWhichOnlyAnotherPartIsReadAreSeen) {
  constexpr std::int64_t kHead = 64;
  const HostileProgram program = [](const RunPart& run) {
    const auto flat = torch::randn({60'000});
    auto weight = torch::empty({0});
    weight.set_data(flat.narrow(0, kHead, 60'000 - kHead));
    weight.requires_grad_();
    auto scale = torch::randn({kHead}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto y = run([&] {
        const auto factor = torch::tanh((scale * flat.narrow(0, 0, kHead).sin()).sum());
        return weight.sin().cos().exp() * factor;
      });
      double_one_number(flat);
      y.sum().backward();
      all.push_back(gradient_of(weight));
      all.push_back(gradient_of(scale));
    }
    return all;
  };
  EXPECT_GT(expect_same_or_error_in_every_mode(program, {.text = "modified by an inplace"}), 0);
}

/// Two parts of one memory, the first of which is a tensor of its own to autograd and counts with
/// the whole.
struct CutOut {
  at::Tensor whole = torch::randn({2000, 100});
  at::Tensor first = whole.narrow(0, 0, 10).detach();
  at::Tensor second;
};

/// One element, which no sample is of.
void add_to_one(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  tensor[517][43].add_(3);
}

HostileProgram reads_both(at::Tensor (*second_of)(const at::Tensor& whole)) {
  return [=](const RunPart& run) {
    auto weight = torch::randn({1000, 100}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      CutOut parts;
      parts.second = second_of(parts.whole);
      const auto loss =
          run([&] { return parts.first.sum() + (weight + parts.second).square().sum(); });
      add_to_one(parts.whole.narrow(0, 1000, 1000));
      loss.backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

// The version that grows is first met with a part that the write does not touch.
TEST(SharedStorage, H17WritesToAPartAfterAnotherWasReadAloneAreSeen) {
  const HostileProgram program =
      reads_both([](const at::Tensor& whole) { return whole.narrow(0, 1000, 1000); });
  EXPECT_GT(expect_same_or_error_in_every_mode(program, {.text = "modified by an inplace"}), 0);
}

// Nothing that is read with it counts that write.
TEST(SharedStorage, H17WritesToAPartThatIsReadWithAnotherVersionAreSeen) {
  const HostileProgram program =
      reads_both([](const at::Tensor& whole) { return whole.data().narrow(0, 1000, 1000); });
  EXPECT_GT(expect_same_or_error_in_every_mode(program, {}), 0);
}

// The guard compares what overlaps together, and nothing beside it.
TEST(SharedStorage, H3SlotsMayBeFilledBesideOneOfWhichPartsAreReadToo) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({300, 8}) * 0.1).requires_grad_();
    const auto ring = torch::randn({4, 64, 300});
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto slot = ring.select(0, step % 4);
      const auto y = run([&] {
        return torch::tanh(slot.sin().mm(weight)) * slot.select(1, 0).exp().unsqueeze(1);
      });
      std::fill_n(ring.select(0, (step + 1) % 4).data_ptr<float>(), 64 * 300, 0.1F * step);
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
