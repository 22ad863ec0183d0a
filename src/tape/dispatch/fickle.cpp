#include "tape/dispatch/fickle.h"

#include <algorithm>
#include <array>

namespace gradrecomp::tape {
namespace {

// Backward operators are recorded too, where a region takes a gradient of its own.
constexpr std::array<std::string_view, 72> kWithoutOrder = {
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward",
    "aten::_cdist_backward",
    "aten::_ctc_loss_backward",
    "aten::_cudnn_ctc_loss",
    "aten::_cudnn_rnn_backward",
    "aten::_efficient_attention_backward",
    "aten::_embedding_bag_backward",
    "aten::_embedding_bag_dense_backward",
    "aten::_embedding_bag_per_sample_weights_backward",
    "aten::_flash_attention_backward",
    "aten::_logcumsumexp",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
    "aten::_segment_reduce_backward",
    "aten::_upsample_bicubic2d_aa_backward",
    "aten::_upsample_bilinear2d_aa_backward",
    "aten::_upsample_nearest_exact1d_backward",
    "aten::_upsample_nearest_exact2d_backward",
    "aten::_upsample_nearest_exact3d_backward",
    "aten::adaptive_max_pool2d_backward",
    "aten::adaptive_max_pool3d_backward",
    "aten::avg_pool3d_backward",
    "aten::bincount",
    "aten::convolution_backward",
    "aten::convolution_backward_overrideable",
    "aten::cudnn_grid_sampler_backward",
    "aten::cumprod",
    "aten::cumprod_",
    "aten::cumsum",
    "aten::cumsum_",
    "aten::embedding_dense_backward",
    "aten::embedding_renorm_",
    "aten::fractional_max_pool2d_backward",
    "aten::fractional_max_pool3d_backward",
    "aten::grid_sampler_2d_backward",
    "aten::grid_sampler_3d_backward",
    "aten::histc",
    "aten::index_add",
    "aten::index_add_",
    "aten::index_reduce",
    "aten::index_reduce_",
    "aten::kthvalue",
    "aten::logcumsumexp",
    "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward",
    "aten::max_unpool2d",
    "aten::max_unpool3d",
    "aten::median",
    "aten::nanmedian",
    "aten::nll_loss2d_forward",
    "aten::reflection_pad1d_backward",
    "aten::reflection_pad2d_backward",
    "aten::reflection_pad3d_backward",
    "aten::replication_pad1d_backward",
    "aten::replication_pad2d_backward",
    "aten::replication_pad3d_backward",
    "aten::scatter",
    "aten::scatter_",
    "aten::scatter_add",
    "aten::scatter_add_",
    "aten::scatter_reduce",
    "aten::scatter_reduce_",
    "aten::segment_reduce",
    "aten::upsample_bicubic2d_backward",
    "aten::upsample_bilinear2d_backward",
    "aten::upsample_linear1d_backward",
    "aten::upsample_nearest2d_backward",
    "aten::upsample_nearest3d_backward",
    "aten::upsample_trilinear3d_backward",
};

// On the CPU these add by atomics, or write to one place from several threads.
constexpr std::array<std::string_view, 9> kWithoutOrderOfThreads = {
    "aten::_index_put_impl_",
    "aten::_unsafe_index_put",
    "aten::_unsafe_masked_index_put_accumulate",
    "aten::index_copy",
    "aten::index_copy_",
    "aten::index_put",
    "aten::index_put_",
    "aten::put",
    "aten::put_",
};

constexpr std::array<std::string_view, 13> kConvolutions = {"aten::_convolution",
                                                            "aten::convolution",
                                                            "aten::convolution_overrideable",
                                                            "aten::cudnn_convolution",
                                                            "aten::cudnn_convolution_add_relu",
                                                            "aten::cudnn_convolution_relu",
                                                            "aten::cudnn_convolution_transpose",
                                                            "aten::miopen_convolution",
                                                            "aten::miopen_convolution_add_relu",
                                                            "aten::miopen_convolution_relu",
                                                            "aten::miopen_convolution_transpose",
                                                            "aten::miopen_depthwise_convolution",
                                                            "aten::slow_conv_transpose2d"};

constexpr std::array<std::string_view, 2> kRecurrent = {"aten::_cudnn_rnn", "aten::miopen_rnn"};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const std::string_view> operators_without_order() { return kWithoutOrder; }

std::span<const std::string_view> operators_without_order_of_threads() {
  return kWithoutOrderOfThreads;
}

Fickle fickle_kind(std::string_view name) {
  if (contains(kConvolutions, name)) return Fickle::by_algorithm;
  if (contains(kRecurrent, name)) return Fickle::by_state;
  if (contains(kWithoutOrderOfThreads, name)) return Fickle::by_threads;
  return contains(kWithoutOrder, name) ? Fickle::by_order : Fickle::no;
}

}  // namespace gradrecomp::tape
