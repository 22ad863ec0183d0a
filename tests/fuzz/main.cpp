#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>

#include "fuzz/check/check.h"
#include "fuzz/hostile/hooks.h"
#include "fuzz/hostile/statics.h"
#include "fuzz/program/program.h"
#include "fuzz/world/device.h"

namespace {

using namespace gradrecomp::fuzzing;

enum class Manners : std::uint8_t { polite, hostile };

const std::map<std::string, Manners>& names_of_manners() {
  static const std::map<std::string, Manners> names = {{"polite", Manners::polite},
                                                       {"hostile", Manners::hostile}};
  return names;
}

const std::map<std::string, Place>& names_of_places() {
  static const std::map<std::string, Place> names = {
      {"cpu", Place::cpu}, {"host", Place::host}, {"cuda", Place::cuda}};
  return names;
}

struct Arguments {
  Place device = Place::cpu;
  Manners manners = Manners::hostile;
  std::uint64_t seed = 1;
  std::int64_t programs = 1000;
  std::uint64_t only = 0;
  bool shrinks = false;
  bool verbose = false;
};

struct Totals {
  std::int64_t passed = 0;
  std::int64_t failed = 0;
  std::int64_t skipped = 0;
  std::int64_t failed_by_peak_alone = 0;
};

void print(const Program& program, const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    std::cout << "  " << finding.check << ": " << finding.what << '\n';
  }
  std::cout << (program.careless ? "careless program:\n" : "program:\n") << listing(program)
            << std::flush;
}

void try_seed(std::uint64_t seed, const Arguments& arguments, Totals& totals) {
  const bool hostile = arguments.manners == Manners::hostile;
  const Program program = hostile ? generate_hostile(seed) : generate(seed);
  if (arguments.verbose) std::cout << "seed " << seed << ":\n" << listing(program) << std::flush;
  const auto [findings, reads_unwritten, plain_differs] = check(program);
  if (hostile) leave_to_the_end(program);
  if (reads_unwritten || plain_differs) {
    ++totals.skipped;
    std::cout << "seed " << seed << " skipped: "
              << (reads_unwritten ? "it reads memory that was never written\n"
                                  : "without GradRecomp it differs from itself\n")
              << std::flush;
    return;
  }
  if (findings.empty()) {
    ++totals.passed;
    return;
  }
  ++totals.failed;
  bool peak_alone = true;
  for (const auto& finding : findings) peak_alone &= finding.about_peak;
  totals.failed_by_peak_alone += peak_alone;
  std::cout << "seed " << seed << " failed:\n";
  print(program, findings);
  if (!arguments.shrinks) return;
  const auto shortest = shrink(program, findings.front().check);
  std::cout << "shrunk from " << program.steps.size() << " steps to " << shortest.steps.size()
            << ":\n";
  print(shortest, check(shortest).findings);
}

Totals try_all(const Arguments& arguments, std::uint64_t first, std::int64_t count) {
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  Totals totals;
  for (std::int64_t i = 0; i < count; ++i) {
    try_seed(first + static_cast<std::uint64_t>(i), arguments, totals);
    if (!device_works()) {
      ++totals.failed;
      std::cout << "after seed " << first + static_cast<std::uint64_t>(i)
                << " the device does nothing more\n";
      break;
    }
    if (shows_progress && i % 10 == 9) std::cerr << '\r' << i + 1 << " of " << count << std::flush;
  }
  if (shows_progress) std::cerr << '\r';
  return totals;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs random tensor programs plain and under GradRecomp, and compares bit for bit.",
               "gradrecomp-fuzz");
  Arguments arguments;
  app.add_option("--seed", arguments.seed, "Seed of the first program")->capture_default_str();
  app.add_option("--programs", arguments.programs, "Number of programs")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  const auto* only = app.add_option("--only", arguments.only, "Run the program of this seed alone");
  app.add_option("--manners", arguments.manners,
                 "polite: ordinary programs; hostile: also such as write past the dispatcher, "
                 "borrow memory, hook what is saved, ...")
      ->transform(CLI::CheckedTransformer(names_of_manners()))
      ->default_str("hostile");
  app.add_option(
         "--device", arguments.device,
         "cpu; host: a device of host memory that does its work late, or at random moments; cuda: "
         "the first card. Both only for polite programs")
      ->transform(CLI::CheckedTransformer(names_of_places()))
      ->default_str("cpu");
  app.add_flag("--shrink", arguments.shrinks, "Look for a shorter program that fails like it");
  app.add_flag("--verbose", arguments.verbose, "Print every program");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.device != Place::cpu) {
    if (arguments.manners == Manners::hostile) {
      std::cerr
          << "gradrecomp-fuzz: hostile programs write where only the CPU may, so --device host "
             "and cuda need --manners polite\n";
      return 2;
    }
    if (arguments.device == Place::cuda && !torch::cuda::is_available()) {
      std::cerr << "gradrecomp-fuzz: --device is cuda, but LibTorch finds no CUDA device.\n";
      return 2;
    }
    live_on(arguments.device);
  }
  if (arguments.manners == Manners::hostile) {
    mallopt(M_PERTURB, 0xA5);  // what is read after it was freed differs
    install_saving_hooks();
  }
  const bool single = only->count() > 0;
  const auto totals =
      try_all(arguments, single ? arguments.only : arguments.seed, single ? 1 : arguments.programs);
  if (totals.failed_by_peak_alone > 0) {
    std::cout << totals.failed_by_peak_alone << " failed only by their predicted peak\n";
  }
  std::cout << totals.passed << " passed, " << totals.failed << " failed, " << totals.skipped
            << " skipped\n";
  return totals.failed == 0 ? 0 : 1;
}
