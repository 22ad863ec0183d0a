#include "support/training.h"

#include <cstring>

namespace gradrecomp::test {
namespace {

constexpr std::uint64_t kSeed = 17;

void note(StepState& state, const std::string& name, const at::Tensor& tensor) {
  state.names.push_back(name);
  state.tensors.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
}

// Weights every element differently, so that no gradient is trivially zero or constant.
at::Tensor loss_of(const std::vector<at::Tensor>& outputs) {
  at::Tensor loss = torch::zeros({}, torch::kDouble);
  for (const auto& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    const auto real = output.is_complex() ? torch::view_as_real(output) : output;
    const auto weights =
        torch::linspace(0.5, 1.5, std::max<std::int64_t>(real.numel(), 1), torch::kDouble);
    loss = loss + (real.to(torch::kDouble).flatten() * weights.slice(0, 0, real.numel())).sum();
  }
  return loss;
}

void note_gradients(StepState& state, const Program& program,
                    const std::vector<at::Tensor>& inputs) {
  for (const auto& parameter : program.module->named_parameters()) {
    note(state, "gradient of " + parameter.key(), parameter.value().grad());
  }
  for (const auto& buffer : program.module->named_buffers())
    note(state, buffer.key(), buffer.value());
  for (const auto& input : inputs) {
    if (input.requires_grad()) note(state, "gradient of an input", input.grad());
  }
}

void descend(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 1e-3);
    parameter.mutable_grad() = at::Tensor();
  }
}

StepState train_step(const Program& program, const Forward& run) {
  StepState state;
  const auto inputs = program.inputs();
  try {
    const auto outputs = run(inputs);
    for (const auto& output : outputs) note(state, "output", output);
    const auto loss = loss_of(outputs);
    note(state, "loss", loss);
    if (loss.requires_grad()) loss.backward();
  } catch (const std::exception& error) {
    state.error = error.what();
  }
  note_gradients(state, program, inputs);
  note(state, "random state", at::globalContext().defaultGenerator(c10::kCPU).get_state());
  descend(*program.module);
  for (const auto& parameter : program.module->named_parameters()) {
    note(state, parameter.key(), parameter.value());
  }
  return state;
}

}  // namespace

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const auto x = a.detach().cpu().contiguous();
  const auto y = b.detach().cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

std::vector<StepState> train(const Program& program, const Forward& run, int num_steps) {
  std::vector<StepState> states;
  for (int i = 0; i < num_steps; ++i) states.push_back(train_step(program, run));
  return states;
}

void expect_same(const std::vector<StepState>& plain, const std::vector<StepState>& wrapped) {
  ASSERT_EQ(plain.size(), wrapped.size());
  for (std::size_t step = 0; step < plain.size(); ++step) {
    EXPECT_EQ(plain[step].error.empty(), wrapped[step].error.empty())
        << "step " << step << ": " << plain[step].error << wrapped[step].error;
    ASSERT_EQ(plain[step].names, wrapped[step].names) << "step " << step;
    for (std::size_t i = 0; i < plain[step].tensors.size(); ++i) {
      EXPECT_TRUE(same_bits(plain[step].tensors[i], wrapped[step].tensors[i]))
          << plain[step].names[i] << " differs in step " << step;
    }
  }
}

std::int64_t expect_same_training(const std::function<Program()>& make,
                                  const std::vector<Options>& options, int num_steps) {
  torch::manual_seed(kSeed);
  const Program plain = make();
  const auto expected = train(plain, plain.forward, num_steps);
  std::int64_t num_replayed_ops = 0;
  for (const Options& option : options) {
    SCOPED_TRACE(option.policy.empty() ? "max_overhead" : option.policy);
    torch::manual_seed(kSeed);
    const Program program = make();
    Region region(option);
    const auto run = [&](const std::vector<at::Tensor>& inputs) {
      num_replayed_ops += region.last_step().num_replayed_ops;
      return region.run([&] { return program.forward(inputs); });
    };
    expect_same(expected, train(program, run, num_steps));
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  return num_replayed_ops;
}

std::vector<Options> every_policy() {
  std::vector<Options> options;
  for (const char* policy :
       {"keep_all", "drop_all", "every_1", "every_2", "sqrt_n", "pointwise_only"}) {
    options.push_back({.policy = policy});
  }
  for (const double budget : {0.0, 0.1, 0.5, 1.0}) {
    options.push_back({.max_overhead = budget, .cost = plan::CostModel::flops});
  }
  return options;
}

}  // namespace gradrecomp::test
