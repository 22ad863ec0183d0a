#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <optional>

#include "tape/away/value_copy.h"

namespace gradrecomp::tape {

/// The float32 numbers of a storage rounded to bfloat16, on the same device, in half its bytes.
///
/// Both ways run on the stream that the storage was allocated on, its home, after what the current
/// one has been given, which waits for them. Where the home is not known, they run on what was the
/// current stream when the copy was made.
class RoundedCopy final : public ValueCopy {
 public:
  /// Throws: c10::Error if there is no memory for it, or a kernel fails.
  RoundedCopy(const c10::Storage& original, const std::optional<c10::Stream>& home);

  void leave() override {}
  c10::Storage bring_back() override;
  void arrive() const override;
  void give_up() override { widened_.reset(); }

 private:
  std::optional<c10::Stream> stream_;
  at::Tensor rounded_;
  std::optional<c10::Event> widened_;  ///< of devices with streams
};

/// Whether the device of that type has the kernels that a RoundedCopy needs.
bool can_round_on(c10::DeviceType device);

}  // namespace gradrecomp::tape
