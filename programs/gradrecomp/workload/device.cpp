#include "workload/device.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "bad_input.h"
#include "workload/determinism.h"

namespace gradrecomp::program {

c10::Device open_device(std::string_view name) {
  if (name == "cpu") return c10::kCPU;
  if (name != "cuda") reject("--device", "name", name, "cpu or cuda. Pass one of these.");
  make_cublas_deterministic();
  if (!torch::cuda::is_available()) {
    reject(
        "--device", "name", name,
        "cpu, as this program can use no CUDA device. Build it with the preset cuda on a machine "
        "with a GPU, or pass cpu.");
  }
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
  return {c10::kCUDA, 0};
}

at::ScalarType data_type(std::string_view name, c10::Device device) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name != "float16") {
    reject("--dtype", "name", name, "float32, bfloat16 or float16. Pass one of these.");
  }
  if (device.is_cpu()) {
    reject("--dtype", "name", name,
           "float32 or bfloat16 on the CPU. Pass one of these, or --device cuda.");
  }
  return at::kHalf;
}

std::optional<at::ScalarType> autocast_type(std::string_view name) {
  if (name.empty()) return std::nullopt;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  reject("--autocast", "name", name, "bfloat16 or float16. Pass one of these.");
}

std::string_view data_type_name(at::ScalarType type) {
  if (type == at::kHalf) return "float16";
  return type == at::kBFloat16 ? "bfloat16" : "float32";
}

void finish_work(c10::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace gradrecomp::program
