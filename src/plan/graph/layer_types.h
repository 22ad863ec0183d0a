#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// A type of layer and the ops it runs below autograd.
struct LayerType {
  std::string_view name;
  std::array<std::string_view, 6> op_patterns;  ///< in which `*` stands for any text; then empty
  [[nodiscard]] bool fits(std::string_view op_name) const;
};

/// The layer type that `text` names, whatever its case and dimension: "relu", "Conv2d".
std::optional<LayerType> find_layer_type(std::string_view text);

/// Whether `text` matches `pattern`, in which `*` stands for any text.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace gradrecomp::plan
