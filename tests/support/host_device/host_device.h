#pragma once

#include <torch/nn/module.h>

#include "install.h"
#include "modes.h"

namespace gradrecomp::test {

/// Two devices that any machine has: their memory is the host's and LibTorch's CPU kernels do their
/// work. All else is as with GPUs: allocators with statistics, which report while they hold their
/// lock, streams, events that keep time, and autograd threads of their own.
///
/// They are there in each program that includes this, under LibTorch's key PrivateUse1, and do
/// their work at once but where AsynchronousDevice says otherwise.
inline const c10::Device kHostDevice = installed_host_device(0);
inline const c10::Device kOtherHostDevice = installed_host_device(1);

/// module.to(), which LibTorch refuses for a device that it does not know.
void move_to_host_device(torch::nn::Module& module, c10::Device device = kHostDevice);

}  // namespace gradrecomp::test
