#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Values a user decides about. In patterns `*` stands for any text.
struct Selection {
  std::vector<std::string> keep_stages = {};  ///< keep what ops of these stages save for backward
  std::vector<std::string> drop_stages = {};
  std::vector<std::string> keep_ops = {};  ///< keep what ops of these names save, "aten::conv*"
  std::vector<std::string> drop_ops = {};
  std::vector<std::string> keep_types =
      {};  ///< keep what layers of these types save, "BatchNorm2d"
  std::vector<std::string> drop_types = {};  ///< as layer_types() names them
  bool operator==(const Selection&) const = default;
};

/// What a selection asks of one value.
enum class Constraint : std::uint8_t { open, keep, drop };

/// The constraint of `selection` on every value; it only ever constrains saved values.
///
/// What cannot be replayed stays kept whatever a drop pattern says.
/// Throws:  std::invalid_argument if a pattern or layer type matches nothing, a layer type is not
///          known, or a value is to be kept and dropped.
GRADRECOMP_API std::vector<Constraint> select(const Graph& graph, const Selection& selection);

/// The layer types that a selection can name: "BatchNorm", "Conv", "Linear", ...
///
/// A type is found by the names of the ops that it runs, whatever module or function ran them; the
/// case of letters and a dimension such as the 2d of "Conv2d" do not matter. Where a bias or a
/// scale is written over what an op made, the result counts as made by that op.
GRADRECOMP_API std::vector<std::string> layer_types();

}  // namespace gradrecomp::plan
