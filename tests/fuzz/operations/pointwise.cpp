#include <array>
#include <utility>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

struct Unary {
  const char* name;
  Tensor (*apply)(const Tensor&);
};

// All bounded, or growing no faster than their argument.
constexpr std::array kUnary = {
    Unary{"relu", [](const Tensor& x) { return torch::relu(x); }},
    Unary{"gelu", [](const Tensor& x) { return at::gelu(x); }},
    Unary{"gelu_tanh", [](const Tensor& x) { return at::gelu(x, "tanh"); }},
    Unary{"tanh", [](const Tensor& x) { return torch::tanh(x); }},
    Unary{"sigmoid", [](const Tensor& x) { return torch::sigmoid(x); }},
    Unary{"silu", [](const Tensor& x) { return at::silu(x); }},
    Unary{"softplus", [](const Tensor& x) { return at::softplus(x); }},
    Unary{"elu", [](const Tensor& x) { return at::elu(x); }},
    Unary{"leaky_relu", [](const Tensor& x) { return at::leaky_relu(x, 0.1); }},
    Unary{"hardswish", [](const Tensor& x) { return at::hardswish(x); }},
    Unary{"mish", [](const Tensor& x) { return at::mish(x); }},
    Unary{"exp", [](const Tensor& x) { return x.clamp(-3, 3).exp(); }},
    Unary{"log1p", [](const Tensor& x) { return x.abs().log1p(); }},
    Unary{"sqrt", [](const Tensor& x) { return (x.abs() + 1).sqrt(); }},
    Unary{"rsqrt", [](const Tensor& x) { return (x * x + 1).rsqrt(); }},
    Unary{"sin", [](const Tensor& x) { return x.sin(); }},
    Unary{"cos", [](const Tensor& x) { return x.cos(); }},
    Unary{"erf", [](const Tensor& x) { return x.erf(); }},
    Unary{"square", [](const Tensor& x) { return x.tanh().square(); }},
    Unary{"cube", [](const Tensor& x) { return x.tanh().pow(3); }},
    Unary{"atan", [](const Tensor& x) { return x.atan(); }},
    Unary{"neg", [](const Tensor& x) { return -x; }},
    Unary{"log_sigmoid", [](const Tensor& x) { return at::log_sigmoid(x); }},
    Unary{"hardtanh", [](const Tensor& x) { return at::hardtanh(x); }},
    Unary{"softshrink", [](const Tensor& x) { return at::softshrink(x, 0.1); }},
    Unary{"reciprocal", [](const Tensor& x) { return (x.abs() + 1).reciprocal(); }},
    Unary{"number", [](const Tensor& x) { return 1.5 - x * 0.5; }},
    Unary{"ratio", [](const Tensor& x) { return 2 / (x.abs() + 1); }},
};

void unary(Machine& machine) {
  const Unary& choice = kUnary[machine.dice().below(kUnary.size())];
  machine.say(choice.name);
  machine.push(choice.apply(machine.pick()));
}

void add(Machine& machine) {
  const auto a = machine.pick();
  const auto b = machine.pick_like(a);
  machine.push_writable(machine.dice().chance(0.5) ? a + b * 0.5 : torch::sub(b, a, 0.5));
}

void multiply(Machine& machine) {
  const auto a = machine.pick();
  machine.push_writable(a * machine.pick_like(a).tanh());
}

void divide(Machine& machine) {
  const auto a = machine.pick();
  machine.push(a / (machine.pick_like(a).abs() + 1));
}

void select_between(Machine& machine) {
  const auto a = machine.pick();
  const auto b = machine.pick_like(a);
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push(torch::where(a > b, a, b * 0.5));
    case 1:
      return machine.push(torch::maximum(a, b));
    case 2:
      return machine.push(torch::minimum(a, b));
    default:
      return machine.push(torch::where(a.gt(0), a, torch::zeros_like(a)));
  }
}

void fused(Machine& machine) {
  const auto a = machine.pick_float();
  const auto b = machine.pick_like(a).tanh();
  switch (machine.dice().below(3)) {
    case 0:
      return machine.push(torch::lerp(a, b, 0.3));
    case 1:
      return machine.push(torch::addcmul(a, b, b, 0.5));
    default:
      return machine.push(torch::addcdiv(a, b, b.abs() + 1, 0.5));
  }
}

void broadcast(Machine& machine) {
  const auto a = machine.pick(1);
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push(a * machine.world().scale.to(a.scalar_type()));
    case 1:
      return machine.push(a * machine.pick_like(a.select(-1, 0)).tanh().unsqueeze(-1));
    case 2:
      return machine.push_writable(a + machine.world().scale);
    default: {
      std::vector<std::int64_t> shape(a.dim() + 1, 1);
      shape[0] = 2;
      return machine.push(a.unsqueeze(0) * torch::tensor({0.5f, -0.25f}, device()).view(shape));
    }
  }
}

void cast(Machine& machine) {
  static const std::vector<at::ScalarType> types = {torch::kDouble, torch::kBFloat16, torch::kFloat,
                                                    torch::kHalf};
  machine.push(machine.pick().to(machine.dice().of(types)));
}

void control_by_value(Machine& machine) {
  const auto a = machine.pick();
  const double number = a.numel() == 0 ? 0 : a.detach().sum().tanh().item<double>();
  machine.push(number > 0 ? a * number : a + number);
}

void integers(Machine& machine) {
  const auto a = machine.pick_float();
  const auto levels = (a.clamp(-2, 2) * 2).round().to(torch::kLong);
  machine.push(levels);
  machine.push(a * levels.to(torch::kFloat) * 0.3);
}

void complex_numbers(Machine& machine) {
  const auto a = machine.pick_float(1);
  const auto half = torch::complex(a, a.tanh());
  machine.push(torch::real(half.conj() * half * 0.3));
}

}  // namespace

std::vector<Operation> pointwise_operations() {
  return {{"unary", 16, unary},
          {"add", 6, add},
          {"multiply", 6, multiply},
          {"divide", 2, divide},
          {"select_between", 4, select_between},
          {"fused", 3, fused},
          {"broadcast", 4, broadcast},
          {"cast", 3, cast},
          {"control_by_value", 1, control_by_value},
          {"integers", 2, integers},
          {"complex_numbers", 1, complex_numbers}};
}

}  // namespace gradrecomp::fuzzing
