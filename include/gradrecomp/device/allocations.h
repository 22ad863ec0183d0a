#pragma once

#include <c10/core/Device.h>

#include <cstddef>

#include "gradrecomp/export.h"

namespace gradrecomp::device {

/// Tell the steps that are being profiled what a device's allocator hands out and takes back.
///
/// Call them on the thread that asked the allocator. They take no lock but their own, for no longer
/// than it takes to note the call, so an allocator may call them while it holds its locks.
GRADRECOMP_API void report_allocated(const void* pointer, std::size_t bytes,
                                     c10::Device device) noexcept;
GRADRECOMP_API void report_freed(const void* pointer, c10::Device device) noexcept;

/// Notes that a device's allocator had no memory to give. The allocator calls it, on the thread
/// that asked.
GRADRECOMP_API void report_shortage() noexcept;

/// Makes `begin` what is called before a step is profiled in a program that uses CUDA, to have
/// CUDA's allocator report from then on. A library calls it when it is loaded.
GRADRECOMP_API void register_device_reports(void (*begin)());

}  // namespace gradrecomp::device
