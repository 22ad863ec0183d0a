#include "support/modes.h"

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

Tensors run_seeded(const HostileProgram& program, const RunPart& run) {
  torch::manual_seed(kSeed);
  return program(run);
}

at::Tensor plainly(const std::function<at::Tensor()>& body) { return body(); }

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
  for (const Verify verify : {Verify::first_step, Verify::never, Verify::every_n_steps}) {
    for (Options options : kinds) {
      options.verify = verify;
      options.verify_interval_steps = 2;
      const std::string kind = options.max_overhead     ? "max_overhead"
                               : options.max_peak_bytes ? "max_peak_bytes"
                                                        : options.policy->name();
      modes.push_back(in_region(kind + name_of(verify), options));
    }
  }
  return modes;
}

void expect_same_in_every_mode(const HostileProgram& program) {
  EXPECT_EQ(expect_same_or_error_in_every_mode(program, "no error is expected"), 0);
}

int expect_same_or_error_in_every_mode(const HostileProgram& program, const std::string& text) {
  const WarningLog quiet;
  const Tensors plain = run_seeded(program, plainly);
  int num_errors = 0;
  for (const Mode& mode : every_mode()) {
    SCOPED_TRACE(mode.name);
    try {
      expect_same_bits(plain, run_seeded(program, mode.make()));
    } catch (const std::exception& error) {
      const bool expected = std::string(error.what()).find(text) != std::string::npos;
      EXPECT_TRUE(expected) << error.what();
      num_errors += expected ? 1 : 0;
    }
  }
  return num_errors;
}

}  // namespace gradrecomp::test
