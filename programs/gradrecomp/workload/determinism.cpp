#include "workload/determinism.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string_view>

namespace gradrecomp::program {
namespace {

void ask_for_determinism(bool warn_only) {
  at::globalContext().setDeterministicAlgorithms(true, warn_only);
  // Filling costs every step, and what reads unwritten memory is broken either way.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

// Both LibTorch's operators and its calls of cuBLAS name the setting that they cannot follow.
bool is_about_determinism(const c10::Error& error) {
  const std::string_view message = error.what_without_backtrace();
  return message.find("use_deterministic_algorithms") != std::string_view::npos;
}

}  // namespace

// Attention has a deterministic backward pass that it runs only where a mere warning would not do.
// Max pooling has none, and would throw then. So which of the two it is depends on the model.
void run_deterministically(const std::function<void()>& step) {
  ask_for_determinism(/*warn_only=*/false);
  try {
    return step();
  } catch (const c10::Error& error) {
    if (!is_about_determinism(error)) throw;
  }
  ask_for_determinism(/*warn_only=*/true);
  step();
}

void make_cublas_deterministic() { setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0); }

}  // namespace gradrecomp::program
