#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <string>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// A named span of time, from construction to destruction on one thread: a user scope to LibTorch's
/// profilers, and an NVTX range where the library was built with NVTX's headers. Nearly free while
/// no profiler runs.
class Range {
 public:
  explicit Range(const std::string& name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  at::RecordFunction record_;
  std::uint64_t nvtx_range_ = 0;
};

}  // namespace gradrecomp::tape
