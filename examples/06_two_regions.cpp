// A generator and a discriminator, each with a region and a budget of its own. The discriminator
// runs three times a step, on two kinds of input; each op sequence gets a plan.
#include <torch/torch.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"

int main() {
  namespace nn = torch::nn;
  torch::manual_seed(0);
  nn::Sequential generator(nn::Linear(16, 512), nn::BatchNorm1d(512), nn::ReLU(),
                           nn::Linear(512, 512), nn::BatchNorm1d(512), nn::ReLU(),
                           nn::Linear(512, 32), nn::Tanh());
  nn::Sequential discriminator(nn::Linear(32, 128), nn::LeakyReLU(), nn::Dropout(0.2),
                               nn::Linear(128, 1));
  torch::optim::Adam generator_optimizer(generator->parameters(), 1e-3);
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(), 1e-3);
  gradrecomp::Region generates({.max_overhead = 0.3});
  gradrecomp::Region judges({.max_overhead = 0.2});

  const auto generate = [&](const torch::Tensor& noise) {
    return generates.run([&] { return generator->forward(noise); });
  };
  const auto verdict = [&](const torch::Tensor& x, bool is_real) {
    const auto logits = judges.run([&] { return discriminator->forward(x); });
    return torch::binary_cross_entropy_with_logits(
        logits, is_real ? torch::ones_like(logits) : torch::zeros_like(logits));
  };

  for (int step = 0; step < 4; ++step) {
    const auto fake = generate(torch::randn({1024, 16}));
    discriminator_optimizer.zero_grad();
    auto loss = verdict(torch::rand({1024, 32}), true) + verdict(fake.detach(), false);
    loss.backward();
    discriminator_optimizer.step();

    generator_optimizer.zero_grad();
    auto fooled = verdict(fake, true);
    fooled.backward();
    generator_optimizer.step();
    std::cout << "step " << step << "  discriminator " << loss.item<float>() << "  generator "
              << fooled.item<float>() << '\n';
  }
  std::cout << "generator:     " << generates.brief_report() << '\n'
            << "discriminator: " << judges.brief_report() << ", " << judges.num_plans()
            << " plans\n";
}
