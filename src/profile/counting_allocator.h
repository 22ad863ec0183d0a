#pragma once

#include <cstddef>

#include "gradrecomp/memory_meter.h"

namespace gradrecomp::profile {

/// The CPU counter, shared by the counting allocator and the meters.
MemoryCounter cpu_counter() noexcept;
/// Starts a new peak at the current bytes and returns the old one.
std::int64_t exchange_cpu_peak() noexcept;
/// Raises the peak to at least `bytes`.
void raise_cpu_peak(std::int64_t bytes) noexcept;
/// Counts a block that was handed out on this thread.
void count_allocated(void* pointer, std::size_t bytes);
/// Counts it as given back, before it is.
void count_freed(void* pointer, std::size_t bytes);
/// Whether large blocks of the CPU come from the host arena.
bool uses_host_arena() noexcept;

}  // namespace gradrecomp::profile
