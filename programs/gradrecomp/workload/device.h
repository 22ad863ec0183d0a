#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "workload/workload_options.h"

namespace gradrecomp::program {

/// "cpu" or "cuda"; cuDNN then chooses deterministic algorithms without trying them out, and cuBLAS
/// can.
/// Throws:  BadInput if this program can use no CUDA device.
c10::Device open_device(const std::string& name);

/// The type that LibTorch's Python interface calls so; none for an empty name.
std::optional<at::ScalarType> scalar_type(const std::string& name);

/// All of a device's memory but `cap_bytes`; while it is held, tensors have about as many bytes as
/// a smaller device has.
///
/// Bytes that fit transfer to a card of that size, times do not.
/// Throws: BadInput on the CPU, or if fewer than `cap_bytes` are free.
at::Tensor memory_beyond(std::int64_t cap_bytes, c10::Device device);

/// Runs `step`, and lets what runs after it run, by algorithms that give the same bits every time,
/// as far as LibTorch has them.
///
/// Where an operator has none, `step` runs a second time, with that operator's usual algorithm.
void run_deterministically(const std::function<void()>& step);

/// Waits until the device has done all it was given.
void finish_work(c10::Device device);

/// "LibTorch 2.11.0, CPU threads 2, gradients preallocated"
std::string setting_line(const WorkloadOptions& options);

}  // namespace gradrecomp::program
