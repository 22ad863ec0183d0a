#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

namespace gradrecomp::test::host_device {

/// Runs an operator on a stack of tensors of the host.
using HostCall = std::function<void(torch::jit::Stack&)>;

/// Calls the CPU's kernel of `op`.
HostCall host_call_of(const c10::OperatorHandle& op);

/// Does on this thread's streams what a call would do on the host: the arguments and results on
/// `stack`, which are those of `op`, are the device's, which must be asynchronous.
///
/// `look` finds out what will be returned: it is called on zeros at once. `call` is queued.
void call_on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack, const HostCall& look,
                    const HostCall& call);

/// What the device does for operators that it has no kernel for: the CPU's kernel does it.
///
/// What cannot be known without contents, such as the shape of a selection, waits for the stream,
/// as on CUDA.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace gradrecomp::test::host_device
