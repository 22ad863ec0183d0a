#include "tape/away/rounded_copy.h"

#include <ATen/ATen.h>

#include <cstdint>

#include "tape/aten/below_recording.h"
#include "tape/aten/stream_scope.h"
#include "tape/kernels/device_kernels.h"

namespace gradrecomp::tape {
namespace {

std::uint16_t* words(const at::Tensor& rounded) {
  return static_cast<std::uint16_t*>(rounded.mutable_data_ptr());
}

}  // namespace

RoundedCopy::RoundedCopy(const c10::Storage& original, const std::optional<c10::Stream>& home) {
  const BelowRecording below;
  const c10::Device device = original.device();
  const bool is_home_known = home && home->device() == device;
  if (!device.is_cpu()) stream_ = is_home_known ? *home : current_stream_of(device);
  const StreamScope scope(stream_);
  const auto count = static_cast<std::int64_t>(original.nbytes() / sizeof(float));
  rounded_ = at::empty({count}, at::TensorOptions().dtype(at::kBFloat16).device(device));
  kernels_of(rounded_).round_floats({.num_elements = count,
                                     .numbers = static_cast<const float*>(original.data()),
                                     .rounded = words(rounded_)},
                                    current_stream(rounded_));
  if (stream_ && !is_home_known) note_use(original, *stream_);
}

c10::Storage RoundedCopy::bring_back() {
  const BelowRecording below;
  const StreamScope scope(stream_);
  const at::Tensor back = at::empty({rounded_.numel()}, rounded_.options().dtype(at::kFloat));
  kernels_of(back).widen_floats({.num_elements = back.numel(),
                                 .rounded = words(rounded_),
                                 .numbers = back.mutable_data_ptr<float>()},
                                current_stream(back));
  if (stream_) {
    widened_.emplace(stream_->device_type());
    widened_->record(*stream_);
  }
  return back.storage();
}

void RoundedCopy::arrive() const {
  if (widened_) widened_->block(current_stream_of(rounded_.device()));
}

bool can_round_on(c10::DeviceType device) {
  const kernels::Table* table = kernels::table(device);
  return table != nullptr && table->round_floats != nullptr && table->widen_floats != nullptr;
}

}  // namespace gradrecomp::tape
