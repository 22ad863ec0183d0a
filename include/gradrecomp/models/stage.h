#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::models {

/// A named part of a model's forward pass.
///
/// A stage shares the modules it runs, so it may outlive the model that made it.
struct Stage {
  std::string name;  ///< the module path it covers, e.g. "layer1.0", where there is one
  std::function<torch::Tensor(torch::Tensor)> forward;
};

/// Runs `stages` in order, each on the result of the one before.
///
/// Memory:     every value is moved into the stage that consumes it; nothing else holds it.
inline torch::Tensor run(const std::vector<Stage>& stages, torch::Tensor x) {
  for (const Stage& stage : stages) x = stage.forward(std::move(x));
  return x;
}

}  // namespace gradrecomp::models
