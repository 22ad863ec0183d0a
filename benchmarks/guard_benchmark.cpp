// What it costs to compare what replays read (Options::guard): steps of three models under one plan
// with the guard off, off again, and sampled, in turn. Prints medians of ratios, step by step.
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/vit.h"
#include "gradrecomp/region.h"

namespace {

using gradrecomp::Guard;
using gradrecomp::Options;
using gradrecomp::Region;

struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor()> forward;
};

Subject resnet() {
  auto model = gradrecomp::models::resnet152();
  const auto images = torch::randn({2, 3, 224, 224});
  return {"resnet152, batch 2", model.ptr(),
          [model, images]() mutable { return model->forward(images); }};
}

Subject bert() {
  auto model = gradrecomp::models::bert_large();
  const auto words = torch::randint(1000, {2, 128}, torch::kLong);
  return {"bert-large, batch 2, sequence 128", model.ptr(),
          [model, words]() mutable { return model->forward(words); }};
}

Subject vit() {
  auto model = gradrecomp::models::vit_b_16(1000, /*zero_head=*/false);
  const auto images = torch::randn({2, 3, 224, 224});
  return {"vit-b16, batch 2", model.ptr(),
          [model, images]() mutable { return model->forward(images); }};
}

/// The time of this process in user mode: other work on the machine hardly moves it.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

double time_step(const Subject& subject, Region& region) {
  subject.module->zero_grad();
  const double start = cpu_seconds();
  region.run(subject.forward).pow(2).mean().backward();
  return cpu_seconds() - start;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

void measure(const Subject& subject, int num_steps) {
  Region first(
      {.max_overhead = 0.05, .cost = gradrecomp::plan::CostModel::flops, .guard = Guard::off});
  time_step(subject, first);
  Options options{.plan = std::make_shared<const gradrecomp::plan::Plan>(first.plan()),
                  .guard = Guard::off};
  Region again(options);
  options.guard = Guard::sampled;
  Region guarded(options);
  for (int step = 0; step < 2; ++step) {
    for (Region* region : {&first, &again, &guarded}) time_step(subject, *region);
  }
  std::vector<double> control;
  std::vector<double> ratios;
  for (int step = 0; step < num_steps; ++step) {
    const double plain = time_step(subject, first);
    control.push_back(time_step(subject, again) / plain);
    ratios.push_back(time_step(subject, guarded) / plain);
  }
  std::cout << subject.name << ": guard sampled / off " << median(ratios) << ", off / off "
            << median(control) << ", " << num_steps << " pairs" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const int num_steps = argc > 1 ? std::stoi(argv[1]) : 15;
  at::set_num_threads(1);
  torch::manual_seed(1);
  for (const auto& make : {resnet, bert, vit}) measure(make(), num_steps);
}
