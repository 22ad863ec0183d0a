// A plan made once and followed by others, such as the ranks of a data-parallel job: measured
// seconds differ from process to process, and so would plans.
#include <torch/torch.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "gradrecomp/gradrecomp.h"
#include "gradrecomp/plan/plan_file.h"

torch::nn::Sequential mlp() {
  torch::nn::Sequential layers;
  for (int i = 0; i < 4; ++i) {
    layers->push_back(torch::nn::Linear(128, 128));
    layers->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({128})));
    layers->push_back(torch::nn::GELU());
  }
  return layers;
}

void step(gradrecomp::Region& region, torch::nn::Sequential& model) {
  model->zero_grad();
  const auto x = torch::randn({512, 128});
  region.run([&] { return model->forward(x); }).pow(2).mean().backward();
}

int main() {
  const auto file = std::filesystem::temp_directory_path() / "gradrecomp_example_plan.json";
  auto first_rank = mlp();
  gradrecomp::Region plans({.max_overhead = 0.1});
  step(plans, first_rank);
  gradrecomp::plan::save_plan({plans.plan(), {.description = "mlp, batch 512"}}, file);

  const auto loaded = gradrecomp::plan::load_plan(file);
  auto next_rank = mlp();
  gradrecomp::Region follows({.plan = std::make_shared<const gradrecomp::plan::Plan>(loaded.plan)});
  for (int i = 0; i < 2; ++i) step(follows, next_rank);  // the first is verified as always
  std::cout << loaded.origin.description << ": " << follows.brief_report() << '\n'
            << "same values kept: " << std::boolalpha << (follows.plan().keep == plans.plan().keep)
            << '\n';
  std::filesystem::remove(file);
}
