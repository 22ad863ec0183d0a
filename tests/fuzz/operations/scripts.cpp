#include <torch/script.h>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

// Compiled anew in each run, as TorchScript changes how it runs a function after a few calls.
void script_function(Machine& machine) {
  const auto functions = torch::jit::compile(R"(
    def mix(x, w, times: int):
        parts = []
        for i in range(times):
            if bool(x.mean() > 0):
                x = torch.tanh(torch.mm(x, w) * (i + 1))
            else:
                x = torch.sigmoid(x + 0.1).mul_(0.7)
            parts.append(x)
        return torch.cat(parts)
  )");
  auto& world = machine.world();
  auto x = machine.pick_shaped({2, machine.sizes().features});
  for (auto calls = machine.dice().between(1, 3); calls > 0; --calls) {
    x = functions->run_method("mix", x, world.weight, machine.dice().between(1, 3)).toTensor();
    x = x.narrow(0, 0, 2);
  }
  machine.push(x);
}

void script_module(Machine& machine) {
  auto& world = machine.world();
  torch::jit::Module module("script");
  module.register_parameter("weight", world.weight, /*is_buffer=*/false);
  module.register_buffer("count", torch::zeros({}, device()));
  module.define(R"(
    def forward(self, x):
        y = torch.relu(torch.mm(x, self.weight))
        y = torch.dropout(y, 0.3, True)
        self.count += 1
        return y.exp(), y.sum(-1) * self.count
  )");
  const auto x = machine.pick_shaped({3, machine.sizes().features});
  const auto outputs = module.forward({x}).toTuple();
  machine.push(outputs->elements()[0].toTensor());
  machine.push(outputs->elements()[1].toTensor());
}

void script(Machine& machine) {
  return machine.dice().chance(0.5) ? script_function(machine) : script_module(machine);
}

}  // namespace

std::vector<Operation> script_operations() { return {{"script", 1, script}}; }

}  // namespace gradrecomp::fuzzing
