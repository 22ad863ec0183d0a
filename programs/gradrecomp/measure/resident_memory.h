#pragma once

#include <cstdint>
#include <optional>

namespace gradrecomp::program {

/// Measures how much more of the machine's memory this process comes to hold, as the operating
/// system counts it: resident pages, whoever asked for them.
class ResidentMeter {
 public:
  /// Gives free memory back first, so that reused memory counts.
  ResidentMeter();

  /// The most pages held since then, above those held then, in bytes. None where the system does
  /// not tell.
  [[nodiscard]] std::optional<std::int64_t> peak_bytes() const;

 private:
  std::optional<std::int64_t> start_bytes_;
};

}  // namespace gradrecomp::program
