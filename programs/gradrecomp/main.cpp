#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "bad_input.h"
#include "commands/commands.h"
#include "gradrecomp/memory_meter.h"
#include "input/standard_streams.h"
#include "workload/retained_memory.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

int fail(const char* message, int status) {
  std::cerr << message << '\n';
  return status;
}

std::string explain(const CLI::App* /*app*/, const CLI::Error& error) {
  const bool says_what_to_do = error.get_name() == "ValidationError";
  return std::string("gradrecomp: ") + error.what() +
         (says_what_to_do ? "\n" : ". Run with --help for the options.\n");
}

int run(int argc, char** argv) {
  CLI::App app("GradRecomp: training in less memory, bit for bit");
  int status = 0;
  app.require_subcommand(1);
  app.failure_message(explain);
  app.option_defaults()->take_last();
  gradrecomp::program::add_batch_command(app, status);
  gradrecomp::program::add_bench_command(app, status);
  gradrecomp::program::add_plan_command(app, status);
  gradrecomp::program::add_train_command(app, status);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
}

}  // namespace

int main(int argc, char** argv) {
  gradrecomp::program::retain_freed_memory();
  gradrecomp::install_cpu_counter();
  try {
    gradrecomp::program::check_standard_streams();
    const int status = run(argc, argv);
    gradrecomp::program::finish_standard_output();
    return status;
  } catch (const gradrecomp::program::BadInput& error) {
    return fail(error.what(), kBadInput);
  } catch (const std::invalid_argument& error) {  // files that plan/ refuses
    return fail(error.what(), kBadInput);
  } catch (const c10::ValueError& error) {
    return fail(error.what_without_backtrace(), kBadInput);
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace(), kFailed);
  } catch (const std::exception& error) {
    const bool printing = gradrecomp::program::standard_output_failed();
    return fail(printing ? gradrecomp::program::kStandardOutputFailed : error.what(), kFailed);
  }
}
