#include "profile/forms/smooth_operators.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gradrecomp::profile {
namespace {

// Without the underscore of those that work in place. In order.
constexpr std::array<std::string_view, 61> kSmooth{
    "_adaptive_avg_pool2d",
    "_batch_norm_with_update",
    "_fused_rms_norm",
    "_log_softmax",
    "_native_batch_norm_legit",
    "_safe_softmax",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_softmax",
    "_to_copy",
    "add",
    "addbmm",
    "addcmul",
    "addmm",
    "addmv",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "baddbmm",
    "bmm",
    "cat",
    "clone",
    "constant_pad_nd",
    "convolution",
    "convolution_overrideable",
    "copy",
    "cudnn_batch_norm",
    "cudnn_convolution",
    "div",
    "dot",
    "embedding",
    "erf",
    "gather",
    "gelu",
    "index_select",
    "linear",
    "masked_fill",
    "matmul",
    "mean",
    "mish",
    "mkldnn_convolution",
    "mkldnn_linear",
    "mm",
    "mul",
    "mv",
    "native_batch_norm",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
    "neg",
    "roll",
    "rsub",
    "silu",
    "softplus",
    "sub",
    "sum",
    "upsample_bilinear2d",
    "upsample_nearest2d",
    "where",
};
static_assert(std::ranges::is_sorted(kSmooth));

// Their backward passes read how far a result is from 1, which rounding takes away.
constexpr std::array<std::string_view, 2> kSaturating{"sigmoid", "tanh"};

/// Numbers are rounded to whole ones by it, or there is a pole where what it divides by is 0.
bool divides_otherwise(const tape::Op& op) {
  if (op.handle().schema().overload_name().ends_with("_mode")) return true;
  const auto divisor = std::ranges::find(op.reads, 1, &tape::Read::argument);
  return divisor != op.reads.end() && !divisor->geometry->sizes().empty();
}

}  // namespace

Smoothness smoothness_of(const tape::Op& op) {
  constexpr std::string_view kOfLibTorch = "aten::";
  std::string_view name = op.name();
  if (!name.starts_with(kOfLibTorch)) return Smoothness::none;
  name.remove_prefix(kOfLibTorch.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  if (name == "div" && divides_otherwise(op)) return Smoothness::none;
  if (std::ranges::count(kSaturating, name) > 0) return Smoothness::saturating;
  return std::ranges::binary_search(kSmooth, name) ? Smoothness::smooth : Smoothness::none;
}

}  // namespace gradrecomp::profile
