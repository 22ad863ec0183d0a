#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "gradrecomp/version.h"

namespace gradrecomp::models {

/// What attention works on, each [N, S, H].
struct Projections {
  torch::Tensor query;
  torch::Tensor key;
  torch::Tensor value;
};

struct AttentionOptions {
  std::int64_t num_heads = 1;
  double dropout = 0;  ///< probability; 0 outside training

  /// Bool, true where to attend; broadcasts to [N, num_heads, S, S]. None attends everywhere.
  std::optional<torch::Tensor> mask = std::nullopt;

  /// Each attends to itself and to what comes before it. Not beside a mask.
  bool is_causal = false;
};

/// Multi-head scaled dot-product attention of a sequence to itself, without the output projection.
///
/// Shapes:     [N, S, H] -> [N, S, H]; `num_heads` divides H
torch::Tensor self_attention(const Projections& projections, const AttentionOptions& options);

}  // namespace gradrecomp::models
