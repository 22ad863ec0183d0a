#include "tape/host_memory/transfer_times.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "tape/aten/below_recording.h"
#include "tape/aten/stopwatch.h"
#include "tape/aten/stream_scope.h"
#include "tape/host_memory/host_copy.h"

namespace gradrecomp::tape {

TransferTimes time_transfers(c10::Device device, std::int64_t bytes) {
  const BelowRecording below;
  const auto original = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  std::optional<c10::Stream> stream;
  if (!device.is_cpu()) stream = current_stream_of(device);
  TransferTimes times;
  for (int round = 0; round < 2; ++round) {  // the first takes memory from the system
    Stopwatch storing(stream);
    HostCopy copy(original.storage(), stream);
    copy.leave();
    times.store_seconds = storing.seconds();
    Stopwatch fetching(stream);
    const c10::Storage back = copy.bring_back();
    copy.arrive();
    times.fetch_seconds = fetching.seconds();
  }
  constexpr double kLeast = std::numeric_limits<double>::min();
  return {std::max(times.store_seconds, kLeast), std::max(times.fetch_seconds, kLeast)};
}

}  // namespace gradrecomp::tape
