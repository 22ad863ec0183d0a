#pragma once

#include <string>

#include "gradrecomp/plan/graph_file.h"

namespace gradrecomp::test {

/// The recorded step data/graphs/<name>.json.
inline plan::Graph recorded_graph(const std::string& name) {
  return plan::load_graph(GRADRECOMP_DATA "/graphs/" + name + ".json").graph;
}

}  // namespace gradrecomp::test
