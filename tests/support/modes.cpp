#include "support/modes.h"

#include <array>
#include <cstddef>

#include "gradrecomp/checkpoint.h"
#include "support/messages.h"

namespace gradrecomp::test {
namespace {

constexpr std::uint64_t kSeed = 29;

Mode in_region(const std::string& name, const Options& options) {
  return {name, [options]() -> RunPart {
            const auto region = std::make_shared<Region>(options);
            return [region](const std::function<at::Tensor()>& body) { return region->run(body); };
          }};
}

std::string kind_of(const Options& options) {
  if (options.max_overhead) return "max_overhead";
  if (options.max_peak_bytes) return "max_peak_bytes";
  return options.policy ? options.policy->name() : "default";
}

std::string name_of(Verify verify) {
  switch (verify) {
    case Verify::never:
      return ", never verified";
    case Verify::every_n_steps:
      return ", every second step verified";
    default:
      return "";
  }
}

Tensors run_seeded(const ProgramOfRegions& program, const std::function<RunPart()>& make) {
  torch::manual_seed(kSeed);
  return program(make);
}

at::Tensor plainly(const std::function<at::Tensor()>& body) { return body(); }

constexpr std::array kVerifies = {Verify::first_step, Verify::never, Verify::every_n_steps};

bool depends_on_time(const Options& options) {
  if (options.policy) return options.policy->name().starts_with("whole_block");
  return options.cost == plan::CostModel::seconds;
}

Mode in_region_of(Options options, Verify verify) {
  options.verify = verify;
  options.verify_interval_steps = 2;
  Mode mode = in_region(kind_of(options) + name_of(verify), options);
  mode.depends_on_time = depends_on_time(options);
  return mode;
}

int compare_modes(const ProgramOfRegions& program, const Refusal& refusal) {
  const WarningLog quiet;
  const Tensors plain = run_seeded(program, [] { return plainly; });
  int num_same = 0;
  int num_errors = 0;
  for (const Mode& mode : every_mode()) {
    SCOPED_TRACE(mode.name);
    try {
      expect_same_bits(plain, run_seeded(program, mode.make));
      num_same += mode.depends_on_time ? 0 : 1;
    } catch (const std::exception& error) {
      const std::string message = error.what();
      EXPECT_TRUE(is_stated_error(message)) << message;
      EXPECT_NE(message.find(refusal.text), std::string::npos) << message;
      ++num_errors;
    }
  }
  EXPECT_GE(num_same, refusal.least_num_same) << "modes have plain's bits";
  return num_errors;
}

ProgramOfRegions of_one_region(const HostileProgram& program) {
  return [&program](const std::function<RunPart()>& make) { return program(make()); };
}

}  // namespace

std::vector<Mode> every_mode() {
  std::vector<Options> kinds;
  for (const char* policy : {"keep_all", "drop_all", "every_1", "pointwise_only", "nested"}) {
    kinds.push_back({.policy = policy});
  }
  kinds.push_back({.max_overhead = 0.3, .cost = plan::CostModel::flops});
  kinds.push_back({.max_peak_bytes = 1, .offload = true});
  std::vector<Mode> modes = {{"checkpoint()", []() -> RunPart {
                                return [](const std::function<at::Tensor()>& body) {
                                  return checkpoint(body);
                                };
                              }}};
  for (const Verify verify : kVerifies) {
    for (const Options& options : kinds) modes.push_back(in_region_of(options, verify));
    modes.push_back(in_region_of({}, verify));
  }
  std::size_t next = 0;
  for (const char* policy :
       {"selective", "whole_block_0.5", "sqrt_n", "chen_greedy", "uniform_3", "revolve_2"}) {
    modes.push_back(in_region_of({.policy = policy}, kVerifies[next++ % kVerifies.size()]));
  }
  return modes;
}

void expect_same_in_every_mode(const ProgramOfRegions& program) {
  compare_modes(program, {.text = "no error is expected"});
}

void expect_same_in_every_mode(const HostileProgram& program) {
  expect_same_in_every_mode(of_one_region(program));
}

int expect_same_or_error_in_every_mode(const ProgramOfRegions& program, const Refusal& refusal) {
  return compare_modes(program, refusal);
}

int expect_same_or_error_in_every_mode(const HostileProgram& program, const Refusal& refusal) {
  return compare_modes(of_one_region(program), refusal);
}

}  // namespace gradrecomp::test
