#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace gradrecomp::program {

/// "cpu" or "cuda"; cuDNN then chooses deterministic algorithms without trying them out, and cuBLAS
/// can.
/// Throws:  BadInput for another name, or if this program can use no CUDA device.
c10::Device open_device(std::string_view name);

/// "float32", "bfloat16" or "float16"; the last one not on the CPU.
/// Throws:  BadInput for any other.
at::ScalarType data_type(std::string_view name, c10::Device device);

/// The type of mixed precision by that name; none for an empty one.
/// Throws:  BadInput for any other name.
std::optional<at::ScalarType> autocast_type(std::string_view name);

/// The name that data_type() reads.
std::string_view data_type_name(at::ScalarType type);

/// Waits until the device has done all it was given.
void finish_work(c10::Device device);

/// "2.11.0"
std::string torch_version();

}  // namespace gradrecomp::program
