#include "tape/away/rounding_time.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "tape/aten/below_recording.h"
#include "tape/aten/stopwatch.h"
#include "tape/aten/stream_scope.h"
#include "tape/away/rounded_copy.h"

namespace gradrecomp::tape {

double time_rounding(c10::Device device, std::int64_t bytes) {
  const BelowRecording below;
  const auto original = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  std::optional<c10::Stream> stream;
  if (!device.is_cpu()) stream = current_stream_of(device);
  constexpr int kNumRounds = 4;  // of which the first takes memory from the system
  constexpr double kLeast = 1e-9;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kNumRounds; ++round) {
    Stopwatch stopwatch(stream);
    RoundedCopy copy(original.storage(), stream);
    const c10::Storage back = copy.bring_back();
    least = std::min(least, stopwatch.seconds());
  }
  return std::max(least, kLeast);
}

}  // namespace gradrecomp::tape
