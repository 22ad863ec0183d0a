// Steps of small ops, of which recording would cost a good part: plain, under keep_all and under
// budgets in seconds, once their plans stay. A round is plain, arm, arm, plain. Prints medians of
// the rounds' ratios of wall time with their quarters, and plain's to itself.
//
// small_ops_benchmark [rounds]
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"

namespace {

using gradrecomp::Options;
using gradrecomp::Region;

struct Subject {
  std::string name;
  std::vector<at::Tensor> weights;
  std::function<at::Tensor()> loss;
};

at::Tensor weights_of(std::int64_t rows, std::int64_t columns) {
  return (torch::randn({rows, columns}) * 0.1).requires_grad_();
}

Subject perceptron() {
  std::vector<at::Tensor> weights;
  for (int layer = 0; layer < 5; ++layer) weights.push_back(weights_of(64, 64));
  const auto input = torch::randn({1, 64});
  return {"5 layers of 64 units, batch 1", weights, [weights, input] {
            auto x = input;
            for (const auto& weight : weights) x = torch::gelu(x.mm(weight));
            return x.sum();
          }};
}

Subject lstm(std::int64_t num_steps, std::int64_t num_units) {
  const auto from_input = weights_of(num_units, 4 * num_units);
  const auto from_state = weights_of(num_units, 4 * num_units);
  const auto inputs = torch::randn({num_steps, 1, num_units});
  const auto loss = [=] {
    auto state = torch::zeros({1, num_units});
    auto cell = state;
    for (std::int64_t step = 0; step < num_steps; ++step) {
      const auto gates = (inputs[step].mm(from_input) + state.mm(from_state)).chunk(4, 1);
      cell = torch::sigmoid(gates[0]) * cell + torch::sigmoid(gates[1]) * torch::tanh(gates[2]);
      state = torch::sigmoid(gates[3]) * torch::tanh(cell);
    }
    return state.sum();
  };
  return {"LSTM written out, " + std::to_string(num_steps) + " steps of " +
              std::to_string(num_units) + " units, batch 1",
          {from_input, from_state},
          loss};
}

/// Takes a step, in `region` unless that is null, and returns its wall time.
double time_step(const Subject& subject, Region* region) {
  for (const auto& weight : subject.weights) weight.mutable_grad() = at::Tensor();
  const auto start = std::chrono::steady_clock::now();
  (region != nullptr ? region->run(subject.loss) : subject.loss()).backward();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// "1.002 (0.998..1.004)": the median and the quarters of `ratios`.
std::string describe(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  const auto at = [&](std::size_t quarter) { return ratios[(ratios.size() - 1) * quarter / 4]; };
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << at(2) << " (" << at(1) << ".." << at(3) << ")";
  return text.str();
}

void compare(const Subject& subject, const std::string& arm, const Options& options,
             int num_rounds) {
  Region region(options);
  for (int step = 0; step < 20; ++step) time_step(subject, &region);  // its plan stays
  std::vector<double> control;
  std::vector<double> ratios;
  for (int round = 0; round < num_rounds; ++round) {
    const double before = time_step(subject, nullptr);
    const double steps = time_step(subject, &region) + time_step(subject, &region);
    const double after = time_step(subject, nullptr);
    ratios.push_back(steps / (before + after));
    control.push_back(after / before);
  }
  std::cout << arm << ": " << describe(std::move(ratios)) << ", plain to plain "
            << describe(std::move(control)) << "\n  " << region.brief_report() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const int num_rounds = argc > 1 ? std::stoi(argv[1]) : 40;
  at::set_num_threads(1);
  torch::manual_seed(1);
  for (const auto& subject : {perceptron(), lstm(100, 128), lstm(1000, 16)}) {
    std::cout << subject.name << "\n";
    compare(subject, "keep_all", {.policy = "keep_all"}, num_rounds);
    compare(subject, "5%", {.max_overhead = 0.05}, num_rounds);
    compare(subject, "20%", {.max_overhead = 0.2}, num_rounds);
  }
}
