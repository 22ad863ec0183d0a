#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

#include "workload/model_catalog.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

/// What one step is trained on.
struct Batch {
  torch::Tensor input;   ///< images [N, 3, size, size], or token ids [N, sequence]
  torch::Tensor target;  ///< digits [N], classes of pixels [N, size, size], or bytes [N * sequence]
};

/// Batch number `index` of an endless sequence; the same number gives the same batch.
using Batches = std::function<Batch(std::int64_t index)>;

/// Scores that a text model gives a token, one for each byte.
inline constexpr std::int64_t kNumBytes = 256;

/// Throws:  BadInput or std::invalid_argument if the file cannot be read or does not fit the model.
Batches make_batches(ModelFamily family, const WorkloadOptions& options);

}  // namespace gradrecomp::program
