#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "workload/model_catalog.h"

namespace gradrecomp::program {

/// What one step is trained on.
struct Batch {
  torch::Tensor input;   ///< images [N, 3, size, size], or token ids [N, sequence]
  torch::Tensor target;  ///< digits [N], or bytes [N * sequence]
};

/// Batch number `index` of an endless sequence; the same number gives the same batch.
using Batches = std::function<Batch(std::int64_t index)>;

struct BatchOptions {
  std::int64_t batch = 1;
  std::int64_t image_size = 0;
  std::int64_t sequence = 0;
  std::string data = {};  ///< digits for images, any file for text; empty: random input
  std::uint64_t seed = 0;
};

/// Tokens stand for bytes, from this id of BERT's vocabulary on; smaller ones are special.
inline constexpr std::int64_t kFirstByteToken = 1000;
inline constexpr std::int64_t kNumBytes = 256;

/// Throws:  BadInput if the file does not fit the model.
Batches make_batches(ModelFamily family, const BatchOptions& options);

}  // namespace gradrecomp::program
