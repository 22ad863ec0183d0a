#include "check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "dice.h"
#include "gradrecomp/region/region.h"
#include "gradrecomp/tape/recorder.h"
#include "outcome.h"

namespace gradrecomp::fuzzing {
namespace {

using tape::Advice;
using torch::Tensor;

// Collects the library's own warnings and silences LibTorch's.
class WarningLog : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    // The workspace of an RNN layer has gaps that the layer never writes.
    const bool known = warning.msg().find("mkldnn_rnn_layer") != std::string::npos;
    if (warning.msg().starts_with("GradRecomp") && !known) messages.push_back(warning.msg());
  }
  std::vector<std::string> messages;
};

std::vector<Tensor> dropped(const Body& body) { return run_dropped(body); }

Wrapping in_region(Region& region) {
  return [&region](const Body& body) { return region.run(body); };
}

// A tape of its own, without a region, that keeps the values a bit vector names.
Wrapping on_tape(std::uint64_t seed) {
  return [seed](const Body& body) {
    Dice dice(seed);
    const double share = dice.real();
    std::vector<std::uint8_t> keep(4096);
    for (auto& bit : keep) bit = dice.chance(share);
    const auto tape = std::make_shared<tape::Tape>();
    auto recorder = std::make_unique<tape::Recorder>(
        tape, Advice{nullptr, std::make_shared<const std::vector<std::uint8_t>>(std::move(keep))});
    auto outputs = body();
    recorder.reset();
    tape->seal();
    return outputs;
  };
}

Options random_options(Dice& dice, const Outcome& plain) {
  static const std::vector<std::string> policies = {"drop_all",       "keep_all", "every_1",
                                                    "every_2",        "every_3",  "sqrt_n",
                                                    "pointwise_only", "nested",   "revolve_2"};
  Options options;
  options.window_bytes = dice.of(std::vector<std::int64_t>{1, 64, 1024, 16384, 64 << 20});
  if (dice.chance(0.85)) {
    options.policy = dice.of(policies);
  } else if (dice.chance(0.5)) {
    options.max_overhead = dice.real() * 0.3;
    options.cost = plan::CostModel::flops;
  } else {
    const auto share = 0.3 + 0.7 * dice.real();
    options.max_peak_bytes =
        1 + static_cast<std::int64_t>(static_cast<double>(plain.measured_peak_bytes) * share);
  }
  return options;
}

// Any kept set, and sweeps for any of the values that can be demanded.
plan::Plan random_plan(Dice& dice, const plan::Graph& graph) {
  plan::Plan plan{.policy = "random", .signature = graph.signature};
  const double share = dice.real();
  const auto drawn = [&](plan::Index v) {
    return graph.values[v].overwritten_by < 0 && dice.chance(share);
  };
  const auto num_values = static_cast<plan::Index>(graph.values.size());
  for (plan::Index v = 0; v < num_values; ++v) plan.keep.push_back(dice.chance(share / 3));
  for (plan::Index target = 0; target < num_values; ++target) {
    if (!graph.values[target].saved || !drawn(target)) continue;
    plan.sweeps.push_back({.target = target});
    for (plan::Index v = 0; v < num_values; ++v) {
      if (drawn(v)) plan.sweeps.back().cached.push_back(v);
    }
  }
  return plan;
}

std::string described(const Options& options) {
  if (!options.policy.empty()) return options.policy;
  if (options.plan) return "random plan";
  return options.max_overhead ? "max_overhead" : "max_peak_bytes";
}

class Checker {
 public:
  Checker(const Program& program, const CheckOptions& options)
      : program_(program), options_(options), dice_(program.seed ^ 0xc4ec4ec4u) {}

  std::vector<Finding> run_all() {
    const c10::WarningUtils::WarningHandlerGuard guard(&log_);
    plain_ = run(program_, {.nested = false});
    const auto again = run(program_, {.nested = false});
    compare("plain", plain_, again);
    if (!findings_.empty()) return findings_;
    dropped_and_taped();
    endings();
    steps_of_region(random_options(dice_, plain_));
    random_sweeps();
    interleaved();
    changing_programs();
    report_distrust();
    return findings_;
  }

 private:
  void compare(const std::string& name, const Outcome& expected, const Outcome& actual) {
    if (auto what = difference(expected, actual); !what.empty()) findings_.push_back({name, what});
  }

  // Verification keeps what it finds to differ, so the step is right, but here nothing should.
  // Careless writes may reach memory that a reduction left rubbish in.
  void report_distrust() {
    if (program_.careless) return;
    for (const auto& message : log_.messages) findings_.push_back({"verification", message});
  }

  void dropped_and_taped() {
    compare("dropped", plain_, run(program_, {.wrapping = dropped}));
    compare("taped", plain_, run(program_, {.wrapping = on_tape(dice_.next()), .nested = false}));
    nested();
  }

  // A checkpoint that reads memory which the program overwrites before backward says so instead of
  // guessing; a region around the whole program would have seen the write.
  void nested() {
    const auto actual = run(program_, {});
    const bool refused =
        actual.error.find("GradRecomp needs it to rematerialize") != std::string::npos;
    if (!refused || actual.leaked_bytes != 0) compare("nested", plain_, actual);
  }

  void endings() {
    constexpr std::array kinds = {Ending::backward_twice, Ending::two_losses,
                                  Ending::some_gradients, Ending::second_order,
                                  Ending::other_thread,   Ending::written_outputs,
                                  Ending::none,           Ending::none};
    const Ending ending = kinds[dice_.below(kinds.size())];
    const std::string name = to_string(ending);
    const auto expected = run(program_, {.ending = ending, .nested = false});
    Region region({.policy = "drop_all", .verify = options_.verify});
    compare(name + ", dropped", expected, run(program_, {.ending = ending, .wrapping = dropped}));
    compare(name + ", taped", expected,
            run(program_, {ending, on_tape(dice_.next()), /*nested=*/false}));
    compare(name + ", region", expected,
            run(program_, {.ending = ending, .wrapping = in_region(region)}));
    compare(name + ", region again", expected,
            run(program_, {.ending = ending, .wrapping = in_region(region)}));
  }

  void random_sweeps() {
    Region region({.policy = "drop_all", .verify = options_.verify});
    run(program_, {.wrapping = in_region(region)});
    if (!region.has_plan()) return;
    Options options;
    options.plan = std::make_shared<const plan::Plan>(random_plan(dice_, region.graph()));
    options.verify = options_.verify;
    steps_of_region(options);
    const auto expected = run(program_, {.ending = Ending::backward_twice, .nested = false});
    Region again(options);
    for (int step = 0; step < 2; ++step) {
      compare("backward twice, random plan", expected,
              run(program_, {.ending = Ending::backward_twice, .wrapping = in_region(again)}));
    }
  }

  void steps_of_region(Options options) {
    options.verify = options_.verify;
    const std::string name = "region " + described(options);
    Region region(options);
    for (int step = 0; step < 3; ++step) {
      const auto actual = run(program_, {.wrapping = in_region(region)});
      compare(name + ", step " + std::to_string(step), plain_, actual);
      if (step > 0 && plain_.error.empty() && actual.error.empty()) {
        compare_peak(name, region, actual);
      }
    }
  }

  void compare_peak(const std::string& name, const Region& region, const Outcome& actual) {
    if (!region.has_plan()) return;  // no output needs a gradient, so backward never met the region
    if (!region.last_step().followed_plan) {
      findings_.push_back({name, "the step did not follow its plan"});
      return;
    }
    const auto predicted = region.plan().predicted_peak_bytes;
    if (predicted == actual.measured_peak_bytes) return;
    findings_.push_back({name + ", peak",
                         "predicted " + std::to_string(predicted) + ", measured " +
                             std::to_string(actual.measured_peak_bytes),
                         /*about_peak=*/true});
  }

  void interleaved() {
    if (!dice_.chance(0.15)) return;
    const auto expected = run_interleaved(program_, {.nested = false});
    Region region({.policy = "drop_all", .verify = options_.verify});
    for (int step = 0; step < 2; ++step) {
      compare("interleaved", expected, run_interleaved(program_, {.wrapping = in_region(region)}));
    }
  }

  // The same region meets the program, a relative of it that goes on differently, and it again.
  void changing_programs() {
    if (!dice_.chance(0.25)) return;
    Program other = program_;
    const auto kept = dice_.below(static_cast<std::int64_t>(other.steps.size()) + 1);
    other.steps.resize(kept);
    const auto more = generate(dice_.next()).steps;
    other.steps.insert(other.steps.end(), more.begin(),
                       more.begin() + std::min<std::ptrdiff_t>(std::ssize(more), 4));
    const auto expected = run(other, {.nested = false});
    Options options = random_options(dice_, plain_);
    options.verify = options_.verify;
    Region region(options);
    for (const bool changed : {false, false, true, false, true, true, false}) {
      compare(changed ? "changed program" : "program between changes", changed ? expected : plain_,
              run(changed ? other : program_, {.wrapping = in_region(region)}));
    }
  }

  const Program& program_;
  const CheckOptions& options_;
  Dice dice_;
  Outcome plain_;
  WarningLog log_;
  std::vector<Finding> findings_;
};

bool fails(const Program& program, const std::string& check_name, const CheckOptions& options) {
  const auto findings = check(program, options);
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.check == check_name; });
}

}  // namespace

std::vector<Finding> check(const Program& program, const CheckOptions& options) {
  // Attention allocates on its worker threads: when those meet in time is chance, and so is a peak.
  at::set_num_threads(1);
  return Checker(program, options).run_all();
}

Program shrink(Program program, const std::string& failing_check, const CheckOptions& options) {
  for (std::size_t size = std::max<std::size_t>(program.steps.size() / 2, 1); size > 0; size /= 2) {
    for (std::size_t first = program.steps.size(); first-- > 0;) {
      if (first + size > program.steps.size()) continue;
      Program shorter = program;
      const auto begin = shorter.steps.begin() + static_cast<std::ptrdiff_t>(first);
      shorter.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(size));
      if (fails(shorter, failing_check, options)) program = std::move(shorter);
    }
  }
  return program;
}

}  // namespace gradrecomp::fuzzing
