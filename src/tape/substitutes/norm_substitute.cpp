#include "tape/substitutes/norm_substitute.h"

#include <ATen/ATen.h>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/kernels/device_kernels.h"
#include "tape/op.h"

namespace gradrecomp::tape {
namespace {

/// NHWC, and not NCHW at the same time.
bool is_channels_last(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return false;
  return tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
         tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d);
}

const void* data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

bool are_known(const at::Tensor& result, const at::Tensor& mean) {
  return result.numel() > 0 && fills_its_storage(result) &&
         kernels::dtype_of(result.scalar_type()) && kernels::dtype_of(mean.scalar_type());
}

/// What BatchNorm and LayerNorm have in common. Throws if a dtype has no kernel: unverified
/// formulas are not run.
template <class Norm, class Operands>
void fill(Norm& norm, const Operands& from, const at::Tensor& y, int formula) {
  norm.dtype = kernels::dtype_of(y.scalar_type()).value();
  const at::Tensor& parameter = from.weight.defined() ? from.weight : from.bias;
  if (parameter.defined())
    norm.parameter_dtype = kernels::dtype_of(parameter.scalar_type()).value();
  norm.statistics_dtype = kernels::dtype_of(from.mean.scalar_type()).value();
  norm.x = data(from.x);
  norm.mean = data(from.mean);
  norm.gamma = data(from.weight);
  norm.beta = data(from.bias);
  norm.y = y.mutable_data_ptr();
  norm.rounding = kernels::kRoundings.at(formula);
}

}  // namespace

int NormSubstitute::num_formulas() const { return static_cast<int>(kernels::kRoundings.size()); }

NormSubstitute::Operands NormSubstitute::operands(const Op& op,
                                                  const std::vector<at::Tensor>& tensors) const {
  Operands found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (op.reads[i].argument == 0) found.x = tensors[i];
    if (op.reads[i].argument == weight_) found.weight = tensors[i];
    if (op.reads[i].argument == bias_) found.bias = tensors[i];
  }
  found.mean = tensors[tensors.size() - 2];
  found.inverse_deviation = tensors[tensors.size() - 1];
  return found;
}

bool NormSubstitute::cancel(const Op& op, std::vector<at::Tensor>& tensors) const {
  constexpr double kScale = 1024;  // lifts what remains above float16's least numbers
  const BelowRecording below;
  const Operands from = operands(op, tensors);
  if (!from.bias.defined()) return false;
  at::Tensor first = first_elements(from);
  at::Tensor weight;
  if (from.weight.defined()) {
    weight = from.weight.mul(kScale);
    first.mul_(weight.flatten());
  }
  const at::Tensor bias = first.neg().to(from.bias.scalar_type()).view(from.bias.sizes());
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    if (op.reads[i].argument == weight_) tensors[i] = weight;
    if (op.reads[i].argument == bias_) tensors[i] = bias;
  }
  return true;
}

at::Tensor BatchNormSubstitute::first_elements(const Operands& from) const {
  const at::Tensor x =
      from.x.select(0, 0).reshape({from.x.size(1), -1}).select(1, 0).to(at::kFloat);
  return x.sub(from.mean).mul_(from.inverse_deviation);
}

at::Tensor LayerNormSubstitute::first_elements(const Operands& from) const {
  const at::Tensor x = from.x.reshape({from.mean.numel(), -1}).select(0, 0).to(at::kFloat);
  return x.sub(from.mean.flatten()[0]).mul_(from.inverse_deviation.flatten()[0]);
}

bool BatchNormSubstitute::takes(const at::Tensor& result, const at::Tensor& mean) const {
  const auto* table = kernels::table(result.device().type());
  if (table == nullptr || table->batch_norm_apply == nullptr) return false;
  const bool is_dense = result.is_contiguous() || is_channels_last(result);
  return is_dense && are_known(result, mean) && result.dim() >= 2 && mean.numel() == result.size(1);
}

at::Tensor BatchNormSubstitute::run(const Op& op, const std::vector<at::Tensor>& tensors,
                                    int formula, const Followers& followers) const {
  const Operands from = operands(op, tensors);
  at::Tensor y = at::empty_like(from.x);
  kernels::BatchNorm norm;
  fill(norm, from, y, formula);
  norm.invstd = data(from.inverse_deviation);
  norm.num_images = y.size(0);
  norm.num_channels = y.size(1);
  norm.inner = y.numel() / (y.size(0) * y.size(1));
  norm.layout =
      is_channels_last(y) ? kernels::Layout::channels_last : kernels::Layout::channels_first;
  norm.residual = data(followers.residual);
  norm.relu = followers.relu;
  kernels_of(y).batch_norm_apply(norm, current_stream(y));
  return y;
}

bool LayerNormSubstitute::takes(const at::Tensor& result, const at::Tensor& mean) const {
  const auto* table = kernels::table(result.device().type());
  if (table == nullptr || table->layer_norm_apply == nullptr) return false;
  return result.is_contiguous() && are_known(result, mean) && mean.numel() > 0 &&
         result.numel() % mean.numel() == 0;
}

bool LayerNormSubstitute::takes_samples(const Op& op) const {
  constexpr std::size_t kNormalizedShape = 1;  // native_layer_norm's argument
  return op.reads.front().geometry->sizes().size() >
         op.argument(kNormalizedShape).toIntList().size();
}

at::Tensor LayerNormSubstitute::run(const Op& op, const std::vector<at::Tensor>& tensors,
                                    int formula, const Followers& /*followers*/) const {
  const Operands from = operands(op, tensors);
  at::Tensor y = at::empty_like(from.x);
  kernels::LayerNorm norm;
  fill(norm, from, y, formula);
  norm.rstd = data(from.inverse_deviation);
  norm.num_rows = from.mean.numel();
  norm.num_columns = y.numel() / norm.num_rows;
  kernels_of(y).layer_norm_apply(norm, current_stream(y));
  return y;
}

}  // namespace gradrecomp::tape
