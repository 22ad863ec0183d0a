#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "gradrecomp/memory_meter.h"
#include "gradrecomp/version.h"
#include "progress.h"

namespace {

using namespace gradrecomp::program;

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

constexpr const char* kStandardOutputFailed =
    "standard output is full or broken, but must take all that is printed. Make room, or send it "
    "elsewhere.";

int fail(std::string_view message, int status) {
  clear_progress();
  fmt::print(stderr, "gradrecomp: {}\n", message);
  return status;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

/// The lowest free number is the one that open() takes.
void fill(int descriptor, int mode) {
  if (!is_open(descriptor)) static_cast<void>(::open("/dev/null", mode));
}

/// Checks that there is a standard output, and puts /dev/null where input or errors are closed: a
/// file that the program opens must not get their numbers.
void check_standard_streams() {
  if (!is_open(STDOUT_FILENO)) {
    throw std::runtime_error(
        "standard output is closed, but must be open. Leave >&- out, or send it to /dev/null.");
  }
  fill(STDIN_FILENO, O_RDONLY);
  fill(STDERR_FILENO, O_WRONLY);
}

/// One sentence on why `app` does not take its command line.
std::string explain(const CLI::App& app, const CLI::Error& error) {
  std::string text = error.what();
  if (error.get_name() == "ValidationError") {
    return text.erase(text.find(':'), 1);  // "--batch: is 0, but must be ...", by input/validators
  }
  if (app.get_subcommands().empty() && app.remaining_size() > 0) {
    std::vector<std::string> names;
    for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
    text = fmt::format("The first argument is {}, but must be one of {}", app.remaining().front(),
                       fmt::join(names, ", "));
  }
  return text + ". Run with --help for the options.";
}

int run(int argc, char** argv) {
  CLI::App app("GradRecomp: training in less memory, bit for bit", "gradrecomp");
  int status = 0;
  app.require_subcommand(1);
  app.set_version_flag("--version", "gradrecomp " GRADRECOMP_VERSION);
  app.option_defaults()->take_last()->always_capture_default();
  app.option_defaults()->disable_flag_override();
  add_batch_command(app, status);
  add_bench_command(app, status);
  add_plan_command(app, status);
  add_train_command(app, status);
  add_verify_command(app, status);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    return fail(explain(app, error), kBadInput);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A file that may not grow is an error like a full disk, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  gradrecomp::install_cpu_counter();
  try {
    check_standard_streams();
    const int status = run(argc, argv);
    const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    return is_written ? status : fail(kStandardOutputFailed, kFailed);
  } catch (const std::invalid_argument& error) {  // BadInput, and what plan/ refuses
    return fail(error.what(), kBadInput);
  } catch (const c10::ValueError& error) {
    return fail(error.what_without_backtrace(), kBadInput);
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace(), kFailed);
  } catch (const std::exception& error) {
    return fail(std::ferror(stdout) != 0 ? kStandardOutputFailed : error.what(), kFailed);
  }
}
