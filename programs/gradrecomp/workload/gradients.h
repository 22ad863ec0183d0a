#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace gradrecomp::program {

/// How a step finds its gradients.
enum class Gradients : std::uint8_t {
  preallocated,  ///< zeros of the parameters' shapes, which are not activations
  none,          ///< undefined: the step allocates them, and its peak counts them
};

/// "preallocated" or "none".
std::string_view to_string(Gradients gradients);

/// Zeroes the gradients in place, allocating them the first time, or drops them.
void reset_gradients(const std::vector<torch::Tensor>& parameters, Gradients gradients);

}  // namespace gradrecomp::program
