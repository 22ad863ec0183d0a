// A region around code that is not an nn::Sequential: an LSTM cell in a loop, with named stages.
#include <torch/torch.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"

int main() {
  torch::manual_seed(0);
  torch::nn::LSTMCell cell(16, 64);
  torch::nn::Linear head(64, 1);
  gradrecomp::Region region({.policy = "every_1"});

  for (int step = 0; step < 3; ++step) {
    const auto sequence = torch::randn({50, 8, 16});
    auto prediction = region.run([&] {
      auto state = std::make_tuple(torch::zeros({8, 64}), torch::zeros({8, 64}));
      for (int t = 0; t < 50; ++t) {
        if (t % 10 == 0) gradrecomp::begin_stage("time " + std::to_string(t));
        state = cell(sequence[t], state);
      }
      return head(std::get<0>(state));
    });
    prediction.pow(2).mean().backward();
    std::cout << "step " << step << "  " << region.brief_report() << '\n';
  }
}
