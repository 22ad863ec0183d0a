// What it costs to compare what replays read (Options::guard): steps of three models under one plan
// with the guard off, off again, and sampled. A round runs the three in turn and then in the
// opposite turn, so that what drifts in it falls on each alike. Prints medians of the rounds'
// ratios with the lowest and the highest.
//
// guard_benchmark [rounds [off|sampled]]: with the second argument, steps of that one alone, to be
// run under a profiler, and when they ran.
#include <sys/resource.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
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

/// "1.002 (0.998..1.004)": the median, the least and the most of `ratios`.
std::string describe(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << ratios[ratios.size() / 2] << " (" << ratios.front()
       << ".." << ratios.back() << ")";
  return text.str();
}

/// Options that follow the plan for 5% of FLOPs.
Options options_for(const Subject& subject, Guard guard) {
  Region planned({.max_overhead = 0.05, .cost = gradrecomp::plan::CostModel::flops});
  time_step(subject, planned);
  return {.plan = std::make_shared<const gradrecomp::plan::Plan>(planned.plan()), .guard = guard};
}

void compare(const Subject& subject, int num_rounds) {
  Options options = options_for(subject, Guard::off);
  Region off(options);
  Region again(options);
  options.guard = Guard::sampled;
  Region guarded(options);
  const std::array<Region*, 6> turns{&off, &again, &guarded, &guarded, &again, &off};
  for (Region* region : turns) time_step(subject, *region);
  std::vector<double> control;
  std::vector<double> ratios;
  for (int round = 0; round < num_rounds; ++round) {
    std::map<Region*, double> seconds;
    for (Region* region : turns) seconds[region] += time_step(subject, *region);
    control.push_back(seconds[&again] / seconds[&off]);
    ratios.push_back(seconds[&guarded] / seconds[&off]);
  }
  std::cout << subject.name << ": guard sampled / off " << describe(ratios) << ", off / off "
            << describe(control) << ", " << num_rounds << " rounds" << std::endl;
}

/// As profilers count, too.
double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run_alone(const Subject& subject, int num_rounds, Guard guard) {
  Region region(options_for(subject, guard));
  time_step(subject, region);
  const double start = monotonic_seconds();
  for (int step = 0; step < 2 * num_rounds; ++step) time_step(subject, region);
  std::cout << subject.name << ": " << 2 * num_rounds << " steps under the plan, " << std::fixed
            << std::setprecision(3) << start << "," << monotonic_seconds()
            << " in seconds of the monotonic clock" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const int num_rounds = argc > 1 ? std::stoi(argv[1]) : 7;
  at::set_num_threads(1);
  torch::manual_seed(1);
  const std::string alone = argc > 2 ? argv[2] : "";
  for (const auto& make : {resnet, bert, vit}) {
    if (alone.empty()) {
      compare(make(), num_rounds);
    } else {
      run_alone(make(), num_rounds, alone == "off" ? Guard::off : Guard::sampled);
    }
  }
}
