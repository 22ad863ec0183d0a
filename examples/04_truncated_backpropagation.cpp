// An RNN over a long sequence, cut into pieces that backward does not cross. Every piece has the
// same ops, so the region profiles once and follows its plan from then on.
#include <torch/torch.h>

#include <iostream>
#include <tuple>

#include "gradrecomp/gradrecomp.h"

int main() {
  torch::manual_seed(0);
  torch::nn::LSTMCell cell(8, 64);
  torch::nn::Linear head(64, 8);
  torch::optim::SGD optimizer(cell->parameters(), 0.1);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(head->parameters()));
  gradrecomp::Region region({.max_overhead = 0.3, .cost = gradrecomp::plan::CostModel::flops});

  constexpr int kPieces = 6;
  constexpr int kSteps = 20;
  const auto sequence = torch::randn({kPieces * kSteps + 1, 4, 8});
  auto state = std::make_tuple(torch::zeros({4, 64}), torch::zeros({4, 64}));
  for (int piece = 0; piece < kPieces; ++piece) {
    optimizer.zero_grad();
    auto loss = region.run([&] {
      auto sum = torch::zeros({});
      for (int t = piece * kSteps; t < (piece + 1) * kSteps; ++t) {
        state = cell(sequence[t], state);
        sum = sum + torch::mse_loss(head(std::get<0>(state)), sequence[t + 1]);
      }
      return sum / kSteps;
    });
    loss.backward();
    optimizer.step();
    state = std::make_tuple(std::get<0>(state).detach(), std::get<1>(state).detach());
    const auto report = region.last_step();
    std::cout << "piece " << piece << "  loss " << loss.item<float>() << "  "
              << (report.followed_plan ? "planned" : report.reason) << '\n';
  }
  std::cout << region.brief_report() << '\n';
}
