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
at::Tensor loss_of(const Tensors& outputs) {
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

void note_gradients(StepState& state, const Program& program, const Tensors& inputs) {
  for (const auto& parameter : program.module->named_parameters()) {
    note(state, "gradient of " + parameter.key(), parameter.value().grad());
  }
  for (const auto& buffer : program.module->named_buffers())
    note(state, buffer.key(), buffer.value());
  for (const auto& input : inputs) {
    if (input.requires_grad()) note(state, "gradient of an input", input.grad());
  }
}

void note_optimizer(StepState& state, const torch::optim::Optimizer& optimizer,
                    const Program& program) {
  for (const auto& parameter : program.module->named_parameters()) {
    note(state, parameter.key(), parameter.value());
    const auto known = optimizer.state().find(parameter.value().unsafeGetTensorImpl());
    if (known == optimizer.state().end()) continue;
    const auto& moments = static_cast<const torch::optim::AdamParamState&>(*known->second);
    note(state, "first moment of " + parameter.key(), moments.exp_avg());
    note(state, "second moment of " + parameter.key(), moments.exp_avg_sq());
  }
}

StepState train_step(const Program& program, const Forward& run,
                     torch::optim::Optimizer& optimizer) {
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
  note(state, "random state", random_state());
  optimizer.step();
  optimizer.zero_grad();
  note_optimizer(state, optimizer, program);
  return state;
}

// What a wrapped step returns is compared with `plain` and its random state with `random`.
void compare_step(const std::function<Tensors(const Wrap&)>& step, const Wrap& wrap,
                  const Tensors& plain, const at::Tensor& random) {
  torch::manual_seed(kSeed);
  expect_same_bits(plain, step(wrap));
  EXPECT_TRUE(same_bits(random, random_state())) << "random state";
}

}  // namespace

at::Tensor random_state() { return at::globalContext().defaultGenerator(c10::kCPU).get_state(); }

void expect_same_bits(const Tensors& expected, const Tensors& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(expected[i], actual[i])) << "tensor " << i << " differs";
  }
}

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
  torch::optim::Adam optimizer(program.module->parameters(), 1e-3);
  for (int i = 0; i < num_steps; ++i) states.push_back(train_step(program, run, optimizer));
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
  for (const StepState& step : expected) EXPECT_TRUE(step.error.empty()) << step.error;
  std::int64_t num_replayed_ops = 0;
  for (const Options& option : options) {
    SCOPED_TRACE(option.policy ? option.policy->name() : "max_overhead");
    torch::manual_seed(kSeed);
    const Program program = make();
    Region region(option);
    const auto run = [&](const Tensors& inputs) {
      num_replayed_ops += region.last_step().num_replayed_ops;
      return region.run([&] { return program.forward(inputs); });
    };
    expect_same(expected, train(program, run, num_steps));
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  return num_replayed_ops;
}

void expect_same_step(const std::function<Tensors(const Wrap&)>& step) {
  torch::manual_seed(kSeed);
  const auto plain = step([](const auto& body) { return body(); });
  const auto random = random_state();
  std::int64_t num_replayed_ops = 0;
  for (const Options& options : {Options{.policy = "drop_all"}, Options{.policy = "keep_all"},
                                 Options{.max_overhead = 0.5, .cost = plan::CostModel::flops},
                                 Options{.max_peak_bytes = 1, .offload = true}}) {
    Region region(options);
    const auto in_region = [&](const auto& body) { return region.run(body); };
    for (int repeat = 0; repeat < 2; ++repeat) {
      SCOPED_TRACE((options.policy ? options.policy->name() : "budget") +
                   (repeat == 0 ? ", profiled" : ", planned"));
      compare_step(step, in_region, plain, random);
      num_replayed_ops += region.last_step().num_replayed_ops;
    }
  }
  EXPECT_GT(num_replayed_ops, 0) << "nothing was replayed";
  SCOPED_TRACE("run_dropped");
  compare_step(
      step, [](const auto& body) { return detail::run_dropped(body); }, plain, random);
}

WrapOne one(const Wrap& wrap) {
  return [wrap](const auto& body) { return wrap([&] { return Tensors{body()}; })[0]; };
}

std::vector<Options> every_policy() {
  std::vector<Options> options;
  for (const char* policy :
       {"keep_all", "drop_all", "every_1", "every_2", "sqrt_n", "uniform_3", "chen_greedy",
        "pointwise_only", "selective", "whole_block_0.5", "revolve_2", "nested"}) {
    options.push_back({.policy = policy});
  }
  for (const double budget : {0.0, 0.1, 0.5, 1.0}) {
    options.push_back({.max_overhead = budget, .cost = plan::CostModel::flops});
  }
  options.push_back({.max_peak_bytes = 1, .offload = true});  // as low as it goes
  return options;
}

}  // namespace gradrecomp::test
