// Trains as a consumer does: a small net that replays all it can, beside its twin without a budget.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"
#include "gradrecomp/plan/graph.h"

namespace nn = torch::nn;

nn::Sequential make_net() {
  torch::manual_seed(1);
  return nn::Sequential(nn::Linear(8, 32), nn::Tanh(), nn::Linear(32, 32), nn::Tanh(),
                        nn::Linear(32, 1));
}

template <typename Net>
void train(Net& net) {
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(2 + step);
    const auto x = torch::rand({16, 8});
    optimizer.zero_grad();
    nn::functional::mse_loss(net->forward(x), x.sum(1, true)).backward();
    optimizer.step();
  }
}

int main() {
  auto plain = make_net();
  gradrecomp::CheckpointedSequential wrapped(make_net(), {.policy = "drop_all"});
  train(plain);
  train(wrapped);
  gradrecomp::plan::validate(wrapped->region().graph());
  std::cout << wrapped->full_report();
  const auto twins = wrapped->named_parameters();
  for (const auto& weight : plain->named_parameters()) {
    if (!torch::equal(weight.value(), twins[weight.key()])) return 1;
  }
  return wrapped->region().last_step().num_replayed_ops > 0 ? 0 : 2;
}
