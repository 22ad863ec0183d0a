#include "fuzz/check/check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

#include "arena/host_arena.h"
#include "fuzz/check/outcome.h"
#include "fuzz/check/peaks.h"
#include "fuzz/check/plain_runs.h"
#include "fuzz/check/rounding.h"
#include "fuzz/check/wrappings.h"
#include "fuzz/program/inner_regions.h"
#include "fuzz/program/random_plan.h"
#include "fuzz/world/device.h"
#include "fuzz/world/dice.h"
#include "fuzz/world/fresh_memory.h"
#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

// Collects the library's own warnings and silences LibTorch's.
class WarningLog : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    // The workspace of an RNN layer has gaps that the layer never writes.
    const bool known = warning.msg().find("mkldnn_rnn_layer") != std::string::npos;
    if (!warning.msg().starts_with("GradRecomp") || known) return;
    const std::lock_guard lock(mutex_);
    messages_.push_back(warning.msg());
  }
  [[nodiscard]] const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::mutex mutex_;  // several threads may run backward
  std::vector<std::string> messages_;
};

// What backward says instead of giving a gradient different from plain training's.
bool is_refusal(const std::string& text) {
  static const std::vector<std::string> refusals = {
      "GradRecomp needs it to rematerialize", "was overwritten after the forward pass",
      "were overwritten by another thread or without the dispatcher's knowledge",
      "in the forward pass and has"};
  return std::ranges::any_of(refusals, [&](const std::string& refusal) {
    return text.find(refusal) != std::string::npos;
  });
}

class Checker {
  // Enough for each of three sequences to get its plan, or to be found never to be asked.
  static constexpr int kRounds = 8;
  // Of fresh memory: a float of 1.5e16, an index far out of range; and one of -1.5e-36.
  static constexpr std::uint8_t kFill = 0x5a;
  static constexpr std::uint8_t kOtherFill = 0x84;

 public:
  Checker(const Program& program, const CheckOptions& options)
      : program_(program), options_(options), dice_(program.seed ^ 0xc4ec4ec4u) {}

  CheckResult run_all() {
    const c10::WarningUtils::WarningHandlerGuard guard(&log_);
    const DeviceSchedule schedule(program_.seed);
    fill_fresh_memory(kFill);
    choose_memory();
    plain_ = expect({});
    compare("plain", plain_, run(program_, {}));
    if (findings_.empty()) run_wrapped_in_all_ways();
    if (!findings_.empty() && plain_runs_.read_unwritten(kFill, kOtherFill))
      return {.findings = {}, .reads_unwritten = true};
    if (!findings_.empty() && plain_runs_.differ()) return {.findings = {}, .plain_differs = true};
    return {.findings = std::move(findings_)};
  }

 private:
  // Programs are small, so every other one has also small blocks in the host arena.
  void choose_memory() const {
    using arena::HostArena;
    HostArena::of_process().set_least_bytes(program_.seed % 2 == 0 ? 1 : HostArena::kLeastBytes);
  }

  // What plain training gives, to which wrapped runs are compared.
  Outcome expect(const Setup& setup) {
    return plain_runs_.expect([this, setup] { return run(program_, setup); });
  }

  void run_wrapped_in_all_ways() {
    dropped_and_taped();
    inner_regions();
    endings_of_region();
    steps_of_region(random_options(dice_, plain_.measured_peak_bytes));
    random_sweeps();
    together();
    changing_programs();
    changing_worlds();
    if (program_.hostile) existing_gradients();
    if (program_.hostile) many_sequences();
    several_passes();
    std::ranges::move(rounded_unlike_plain(program_, plain_, options_.verify),
                      std::back_inserter(findings_));
    report_distrust();
  }

  void compare(const std::string& name, const Outcome& expected, const Outcome& actual) {
    if (expected.may_refuse && refused(expected, actual)) return;
    if (auto what = difference(expected, actual); !what.empty()) findings_.push_back({name, what});
  }

  // Verification keeps what it finds to differ, so the step is right, but here nothing should.
  // Careless writes may reach memory that a reduction left rubbish in, and hostile ones are such as
  // verification is there to find.
  void report_distrust() {
    if (program_.careless || program_.hostile) return;
    for (const auto& message : log_.messages()) findings_.push_back({"verification", message});
  }

  // Checkpoints and regions inside a wrapped program just run what they hold.
  Outcome run_wrapped(const Wrapping& wrapping, Ending ending = Ending::backward) {
    return run(program_, {.ending = ending, .wrapping = wrapping, .inner_regions = &inner_});
  }

  // Its inner ones would be tapes of their own.
  Outcome run_taped(Ending ending = Ending::backward) {
    return run(program_, {.ending = ending, .wrapping = on_tape(dice_.next())});
  }

  void dropped_and_taped() {
    compare("dropped", plain_, run_wrapped(dropped));
    compare("taped", plain_, run_taped());
  }

  // A region that read memory which the program overwrites after it, before backward, says so
  // instead of guessing. Only a region around the write would have seen it.
  void compare_where_refusable(const std::string& name, const Outcome& expected,
                               const Outcome& actual) {
    if (!refused(expected, actual)) compare(name, expected, actual);
  }

  static bool refused(const Outcome& expected, const Outcome& actual) {
    const bool leaks = actual.leaked_bytes > 0 && expected.leaked_bytes <= 0;
    return (is_refusal(actual.error) || is_refusal(actual.caught)) && !leaks;
  }

  // Hostile programs hand out what they make in any way. Only a region that has returned holds what
  // the program holds, so that a write by hand is seen though the program lets go of it then.
  Wrapping around(Region& region, Ending ending = Ending::backward) {
    if (!program_.hostile) return in_region(region);
    switch (dice_.below(3)) {
      case 0:
        return captured_in(region);
      case 1:
        return ending == Ending::raw_written_made ? in_region(region)
                                                  : between_open_and_close(region);
      default:
        return in_region(region);
    }
  }

  Ending some_ending() {
    if (program_.hostile && dice_.chance(0.6)) return dice_.of(hostile_endings());
    return dice_.of(endings());
  }

  void compare_ending(const std::string& name, Ending ending, const Outcome& expected,
                      const Outcome& actual) {
    const bool writes =
        ending == Ending::written_outputs || std::ranges::count(hostile_endings(), ending) > 0;
    if (writes) {
      compare_where_refusable(name, expected, actual);
    } else {
      compare(name, expected, actual);
    }
  }

  void inner_regions() {
    if (!plain_.has_inner) return;
    InnerRegions regions(dice_.next(), options_.verify);
    for (int step = 0; step < 2; ++step) {
      compare_where_refusable("inner regions", plain_, run(program_, {.inner_regions = &regions}));
    }
    const Ending ending = some_ending();
    const Setup setup{.ending = ending, .inner_regions = &regions};
    compare_where_refusable("inner regions, " + std::string(to_string(ending)),
                            expect({.ending = ending}), run(program_, setup));
  }

  void endings_of_region() {
    const Ending ending = some_ending();
    const std::string name = to_string(ending);
    const auto expected = expect({.ending = ending});
    Region region({.policy = "drop_all", .verify = options_.verify});
    const auto compare_with = [&](const char* how, const Outcome& actual) {
      compare_ending(name + how, ending, expected, actual);
    };
    compare_with(", dropped", run_wrapped(dropped, ending));
    compare_with(", taped", run_taped(ending));
    compare_with(", region", run_wrapped(around(region, ending), ending));
    compare_with(", region again", run_wrapped(around(region, ending), ending));
  }

  void random_sweeps() {
    Region region({.policy = "drop_all", .verify = options_.verify});
    run_wrapped(around(region));
    if (!region.has_plan()) return;
    Options options;
    options.plan = std::make_shared<const plan::Plan>(random_plan(dice_, region.graph()));
    options.verify = options_.verify;
    steps_of_region(options);
    const Ending ending = some_ending();
    const auto expected = expect({.ending = ending});
    Region again(options);
    for (int step = 0; step < 2; ++step) {
      compare_ending("random plan, " + std::string(to_string(ending)), ending, expected,
                     run_wrapped(around(again, ending), ending));
    }
  }

  void steps_of_region(const Options& options) {
    steps_of_region(options, Ending::backward, plain_);
  }

  void steps_of_region(Options options, Ending ending, const Outcome& expected) {
    options.verify = options_.verify;
    const std::string name = "region " + described(options) + ", " + to_string(ending);
    Region region(options);
    // One: predictions are of the form that was profiled.
    const Wrapping wrapping = around(region, ending);
    for (int step = 0; step < 3; ++step) {
      const auto actual = run_wrapped(wrapping, ending);
      compare(name + ", step " + std::to_string(step), expected, actual);
      const bool went_well = expected.error.empty() && actual.error.empty();
      const bool is_of_the_region = ending == Ending::backward || is_asked_twice(region);
      if (step > 0 && went_well && is_of_the_region) compare_peak(name, region, actual);
    }
  }

  // A last pass that asks the region for nothing is not part of its step.
  static bool is_asked_twice(const Region& region) {
    if (!region.has_plan()) return false;
    const auto graph = region.graph();
    return std::ranges::count(graph.events, plan::EventKind::pass_end, &plan::Event::kind) == 1;
  }

  void several_passes() {
    if (!dice_.chance(0.3)) return;
    const Ending ending = dice_.of(std::vector{Ending::backward_twice, Ending::two_losses});
    steps_of_region(random_options(dice_, plain_.measured_peak_bytes), ending,
                    expect({.ending = ending}));
  }

  void compare_peak(const std::string& name, const Region& region, const Outcome& actual) {
    if (auto finding = unlike_predicted(name, plain_, region, actual)) {
      findings_.push_back(*std::move(finding));
    }
  }

  // Several graphs at once, of one region or of several, each with data of its own.
  void together() {
    if (!dice_.chance(0.25)) return;
    Together plain = random_together();
    // With other data it may draw, and threads draw in no certain order.
    const auto draws = [&](const Setup& setup) { return run(program_, setup).draws; };
    if (plain.runs_on_threads && std::ranges::any_of(plain.setups, draws)) return;
    const auto expected =
        plain_runs_.expect([this, plain] { return run_together(program_, plain); });
    Together wrapped = plain;
    std::deque<Region> regions;
    const bool is_one_region = !plain.runs_on_threads && dice_.chance(0.5);
    for (auto& setup : wrapped.setups) {
      if (regions.empty() || !is_one_region) {
        regions.emplace_back(Options{.policy = "drop_all", .verify = options_.verify});
      }
      setup.wrapping = around(regions.back(), setup.ending);
      if (dice_.chance(0.2)) setup.wrapping = dropped;
    }
    const std::string name = plain.runs_on_threads   ? "together on threads"
                             : plain.ends_on_threads ? "together, backward on threads"
                                                     : "together";
    for (int step = 0; step < 2; ++step) {
      compare_where_refusable(name, expected, run_together(program_, wrapped));
    }
  }

  Together random_together() {
    Together together;
    together.ends_on_threads = dice_.chance(0.5);
    // All threads share one generator, and one cache of casts, which the first to leave clears.
    const bool casts = plain_.casts || program_.precision != Precision::full;
    together.runs_on_threads = !plain_.draws && !casts && dice_.chance(0.3);
    const auto count = dice_.between(2, 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const Ending ending = dice_.chance(0.6) ? Ending::backward : some_ending();
      const auto data = static_cast<std::uint64_t>(dice_.below(2));
      together.setups.push_back({.ending = ending, .variant = {.data = data}});
      const auto place = static_cast<std::ptrdiff_t>(dice_.below(i + 1));
      together.order.insert(together.order.begin() + place, static_cast<std::size_t>(i));
    }
    if (dice_.chance(0.2)) together.order.pop_back();
    return together;
  }

  // The same region meets the program, a relative of it that goes on differently, and it again.
  void changing_programs() {
    if (!dice_.chance(0.2)) return;
    Program other = program_;
    const auto kept = dice_.below(static_cast<std::int64_t>(other.steps.size()) + 1);
    other.steps.resize(kept);
    const auto more = generate(dice_.next()).steps;
    other.steps.insert(other.steps.end(), more.begin(),
                       more.begin() + std::min<std::ptrdiff_t>(std::ssize(more), 4));
    const auto expected = plain_runs_.expect([other] { return run(other, {}); });
    Region region(some_options());
    for (const bool changed : {false, false, true, false, true, true, false}) {
      compare(changed ? "changed program" : "program between changes", changed ? expected : plain_,
              run(changed ? other : program_, {.wrapping = around(region)}));
    }
  }

  // The same region meets the program with other numbers, by which it may branch, and other shapes.
  void changing_worlds() {
    if (!dice_.chance(program_.hostile ? 0.6 : 0.2)) return;
    const std::vector<Variant> variants = {{}, {.data = 1}, {.data = 2, .sizes = 1}};
    std::vector<Outcome> expected;
    for (const auto& variant : variants) expected.push_back(expect({.variant = variant}));
    Region region(some_options());
    for (const std::size_t i : {0, 0, 1, 2, 1, 2, 0}) {
      compare("world " + std::to_string(i) + " of changing ones", expected[i],
              run(program_, {.wrapping = around(region), .variant = variants[i]}));
    }
  }

  // Leaves that have a gradient before some steps and none before others.
  void existing_gradients() {
    if (!dice_.chance(0.3)) return;
    const std::vector<std::uint64_t> kinds = {0, 1 + dice_.next() % 1000};
    std::vector<Outcome> expected;
    for (const auto kind : kinds) expected.push_back(expect({.gradients = kind}));
    Region region(some_options());
    const Wrapping wrapping = around(region);
    std::vector<int> num_steps(kinds.size());
    for (const std::size_t i : {0, 0, 1, 1, 0, 1, 0}) {
      const Setup setup{.wrapping = wrapping, .gradients = kinds[i]};
      const auto actual = run(program_, setup);
      const std::string name = i == 0 ? "no gradients at first" : "gradients from before";
      compare(name, expected[i], actual);
      const bool followed = region.has_plan() && region.last_step().followed_plan;
      if (expected[i].returns_leaves) continue;
      if (followed && num_steps[i]++ > 0) compare_peak(name, region, actual);
    }
  }

  // One region, entered with several sequences before any of them is done.
  void many_sequences() {
    if (!dice_.chance(0.3)) return;
    Together plain;
    for (std::uint64_t i = 0; i < 3; ++i) {
      plain.setups.push_back({.variant = {.data = i, .sizes = i % 2}});
      const auto place = static_cast<std::ptrdiff_t>(dice_.below(std::ssize(plain.order) + 1));
      plain.order.insert(plain.order.begin() + place, i);
    }
    const auto expected =
        plain_runs_.expect([this, plain] { return run_together(program_, plain); });
    Region region(some_options());
    std::string still_profiled;
    for (int round = 0; round < kRounds; ++round) {
      still_profiled.clear();
      Together wrapped = plain;
      for (auto& setup : wrapped.setups) setup.wrapping = watched(region, still_profiled);
      compare("sequences of one region, round " + std::to_string(round), expected,
              run_together(program_, wrapped));
    }
    // What is verified now and then is logged then too; what throws is never finished.
    const bool settles = region.options().verify != Verify::every_n_steps &&
                         expected.error.empty() && !expected.may_refuse &&
                         !expected.replays_in_backward;
    if (settles && !still_profiled.empty()) {
      findings_.push_back({"sequences of one region",
                           "profiles in round after round, with " +
                               std::to_string(region.num_plans()) + " plans" + still_profiled,
                           /*about_peak=*/true});
    }
  }

  Wrapping watched(Region& region, std::string& profiled) {
    return [&region, &profiled, wrapping = around(region)](const Body& body) {
      auto outputs = wrapping(body);
      const auto report = region.last_step();
      if (report.profiled && report.num_ops > 0) profiled += ": " + report.reason;
      return outputs;
    };
  }

  Options some_options() {
    Options options = random_options(dice_, plain_.measured_peak_bytes);
    options.verify = options_.verify;
    if (options.verify == Verify::first_step && dice_.chance(0.2)) {
      options.verify = Verify::every_n_steps;
      options.verify_interval_steps = dice_.between(1, 3);
    }
    return options;
  }

  const Program& program_;
  const CheckOptions& options_;
  Dice dice_;
  InnerRegions inner_{program_.seed, options_.verify};
  Outcome plain_;
  PlainRuns plain_runs_;
  WarningLog log_;
  std::vector<Finding> findings_;
};

bool fails(const Program& program, const std::string& check_name, const CheckOptions& options) {
  const auto findings = check(program, options).findings;
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.check == check_name; });
}

}  // namespace

CheckResult check(const Program& program, const CheckOptions& options) {
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
