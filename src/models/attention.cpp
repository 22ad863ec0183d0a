#include "attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace gradrecomp::models {

torch::Tensor self_attention(const Projections& projections, const AttentionOptions& options) {
  const auto split_heads = [&](const torch::Tensor& x) {
    return x.unflatten(-1, {options.num_heads, -1}).transpose(1, 2);
  };
  const auto heads = at::scaled_dot_product_attention(
      split_heads(projections.query), split_heads(projections.key), split_heads(projections.value),
      options.mask, options.dropout, options.is_causal);
  return heads.transpose(1, 2).flatten(2);
}

}  // namespace gradrecomp::models
