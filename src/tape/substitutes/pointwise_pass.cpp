#include "tape/substitutes/pointwise_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/stream_scope.h"
#include "tape/kernels/device_kernels.h"

namespace gradrecomp::tape {

void PointwisePass::add(const PointwiseStep& step, const at::Tensor& operand, int formula) {
  const BelowRecording below;
  steps_.push_back(kernel_step(step, operand, dtype_, formula));
  operands_.push_back(operand);
}

c10::Storage PointwisePass::run(const c10::Storage& x) const {
  const BelowRecording below;
  const StreamScope stream(stream_);
  const auto size = static_cast<std::int64_t>(x.nbytes());
  const auto options = at::TensorOptions().dtype(at::kByte).device(x.device());
  c10::Storage y = at::empty({size}, options).storage();
  run(x, y);
  return y;
}

void PointwisePass::run_in_place(const c10::Storage& x) const {
  const BelowRecording below;
  const StreamScope stream(stream_);
  run(x, x);
}

void PointwisePass::run(const c10::Storage& x, const c10::Storage& y) const {
  const at::Tensor bytes = as_bytes(y);
  const std::span<const kernels::Step> steps(steps_);
  for (std::size_t first = 0; first < steps.size(); first += kernels::kMaxSteps) {
    kernels::PointwiseChain chain;
    chain.num_elements = bytes.numel() / kernels::bytes_of(dtype_);
    chain.dtype = dtype_;
    chain.x = first == 0 ? x.data() : y.data();
    chain.y = y.mutable_data();
    chain.steps = steps.subspan(first, std::min(kernels::kMaxSteps, steps.size() - first));
    kernels_of(bytes).apply_chain(chain, current_stream(bytes));
  }
}

}  // namespace gradrecomp::tape
