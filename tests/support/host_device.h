#pragma once

#include <torch/nn/module.h>

namespace gradrecomp::test {

/// A device that any machine has: its memory is the host's and LibTorch's CPU kernels do its work.
/// All else is as with a GPU: an allocator with statistics, which reports while it holds its lock,
/// streams, events that keep time, and autograd threads of its own.
///
/// There is one in each program that links host_device.cpp, under LibTorch's key PrivateUse1.
inline const c10::Device kHostDevice(c10::kPrivateUse1, 0);

/// module.to(), which LibTorch refuses for a device that it does not know.
void move_to_host_device(torch::nn::Module& module);

}  // namespace gradrecomp::test
