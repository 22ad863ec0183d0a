#pragma once

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <cstdint>
#include <initializer_list>

#include "gradrecomp/version.h"

namespace gradrecomp::models {

template <typename T>
struct NamedValue {
  const char* name;
  T value;
};

/// Throws:     c10::ValueError naming the first of the sizes of `model` that is below 1.
inline void check_sizes(const char* model, std::initializer_list<NamedValue<std::int64_t>> sizes) {
  for (const auto& [name, value] : sizes) {
    TORCH_CHECK_VALUE(value > 0, model, ": ", name, " is ", value,
                      ", but must be at least 1. Set it in the options.");
  }
}

/// Throws:     c10::ValueError naming the first of `model`'s options outside [0, 1).
inline void check_probabilities(const char* model,
                                std::initializer_list<NamedValue<double>> probabilities) {
  for (const auto& [name, value] : probabilities) {
    TORCH_CHECK_VALUE(value >= 0 && value < 1, model, ": ", name, " is ", value,
                      ", but must be a probability in [0, 1). Set it in the options.");
  }
}

/// Throws:     c10::ValueError if `value` is not a multiple of `factor`; both are positive.
inline void check_multiple(const char* model, NamedValue<std::int64_t> value,
                           NamedValue<std::int64_t> factor) {
  TORCH_CHECK_VALUE(value.value % factor.value == 0, model, ": ", value.name, " is ", value.value,
                    ", but must be a multiple of ", factor.name, ", which is ", factor.value,
                    ". Change one of the two.");
}

/// Throws:     c10::ValueError if `ids` are not int64 [N, S] with S up to `max_positions`.
inline void check_token_ids(const char* model, const torch::Tensor& ids,
                            std::int64_t max_positions) {
  TORCH_CHECK_VALUE(ids.dim() == 2 && ids.scalar_type() == torch::kLong, model, ": input_ids is a ",
                    ids.scalar_type(), " tensor of shape ", ids.sizes(),
                    ", but must be int64 [N, S]. Pass token numbers.");
  TORCH_CHECK_VALUE(ids.size(1) <= max_positions, model, ": sequence length is ", ids.size(1),
                    ", but must be at most max_positions, which is ", max_positions,
                    ". Truncate the input or build the model with more positions.");
}

}  // namespace gradrecomp::models
