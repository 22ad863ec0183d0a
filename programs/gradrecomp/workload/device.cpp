#include "workload/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <cstdlib>
#include <string_view>

#include "bad_input.h"
#include "format.h"

namespace gradrecomp::program {
namespace {

// Libraries for convolutions and products take memory outside tensors when they are first used.
// A step under the cap is not to pay for that.
void load_libraries(c10::Device device) {
  const auto image = at::ones({1, 8, 8, 8}, at::TensorOptions().device(device));
  at::conv2d(image, image);
  at::matmul(image, image);
}

void ask_for_determinism(bool warn_only) {
  at::globalContext().setDeterministicAlgorithms(true, warn_only);
  // Filling costs every step, and what reads unwritten memory is broken either way.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace

c10::Device open_device(const std::string& name) {
  if (name == "cpu") return c10::kCPU;
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);  // before CUDA starts
  if (!torch::cuda::is_available()) {
    reject("--device", name,
           "cpu, as this program can use no CUDA device. Build it with the preset cuda on a "
           "machine with a GPU, or pass cpu.");
  }
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
  return {c10::kCUDA, 0};
}

std::optional<at::ScalarType> scalar_type(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(c10::getStringToDtypeMap().at(name));
}

at::Tensor memory_beyond(std::int64_t cap_bytes, c10::Device device) {
  if (device.is_cpu()) {
    reject("--device", "cpu", "one with memory of its own for --memory-cap. Add --device cuda.");
  }
  load_libraries(device);  // also, an unused device does not tell what is free
  const auto memory = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  const auto free_bytes = static_cast<std::int64_t>(memory.first);
  if (cap_bytes > free_bytes) {
    reject("--memory-cap", mebibytes(cap_bytes),
           "at most what is free, " + mebibytes(free_bytes) + ".");
  }
  return at::empty({free_bytes - cap_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

// Attention has a deterministic backward pass that it runs only where a mere warning would not do.
// Max pooling has none, and would throw then. So which of the two it is depends on the model.
void run_deterministically(const std::function<void()>& step) {
  ask_for_determinism(/*warn_only=*/false);
  try {
    return step();
  } catch (const c10::Error& error) {
    // Both LibTorch's operators and its calls of cuBLAS name the setting that they cannot follow.
    const std::string_view message = error.what_without_backtrace();
    if (message.find("use_deterministic_algorithms") == std::string_view::npos) throw;
  }
  ask_for_determinism(/*warn_only=*/true);
  step();
}

void finish_work(c10::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

std::string setting_line(const WorkloadOptions& options) {
  return fmt::format("LibTorch {}, CPU threads {}, gradients {}", TORCH_VERSION,
                     at::get_num_threads(), options.gradients);
}

}  // namespace gradrecomp::program
