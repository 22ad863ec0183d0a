#include "measure/resident_memory.h"

#include <fstream>
#include <string>

#include "gradrecomp/memory_meter.h"

namespace gradrecomp::program {
namespace {

/// A line of /proc/self/status, which counts in kB.
std::optional<std::int64_t> status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kilobytes = 0;
    if (word == name && status >> kilobytes) return kilobytes * 1024;
    status.ignore(1000, '\n');
  }
  return std::nullopt;
}

/// Has the system count the highest number of pages from now on. Whether it does.
bool restart_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

}  // namespace

ResidentMeter::ResidentMeter() {
  release_free_host_memory();
  if (restart_peak()) start_bytes_ = status_bytes("VmRSS:");
}

std::optional<std::int64_t> ResidentMeter::peak_bytes() const {
  const auto peak = status_bytes("VmHWM:");
  if (!start_bytes_ || !peak) return std::nullopt;
  return *peak - *start_bytes_;
}

}  // namespace gradrecomp::program
