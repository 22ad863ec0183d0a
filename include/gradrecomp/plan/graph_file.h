#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/origin.h"

namespace gradrecomp::plan {

/// A profiled step as a file holds it.
struct SavedGraph {
  Graph graph;
  Origin origin = {};
};

/// Writes a profiled step as JSON, to be planned elsewhere: values, ops and events by columns.
///
/// A step on several devices has their names in `devices`, and one more column each: `device` of
/// values and events, `further_transient_bytes` of ops. A step on one device has none of these.
///
/// Guarantees: the same text for the same graph; load_graph() gives back every bit of it; a file
///             that is there already stays whole until the new one replaces it.
/// Throws:     std::invalid_argument if no file can be there or validate(graph) throws;
///             std::runtime_error if the disk does not take it.
GRADRECOMP_API void save_graph(const SavedGraph& saved, const std::filesystem::path& path);

/// Reads what save_graph() wrote, and validates it.
/// Throws:  std::invalid_argument naming the file and what is not as it must be.
GRADRECOMP_API SavedGraph load_graph(const std::filesystem::path& path);

/// The text that save_graph() writes. Bytes of strings that are not UTF-8 are replaced.
GRADRECOMP_API std::string graph_text(const SavedGraph& saved);

/// Reads that text, and validates the graph.
/// Throws:  std::invalid_argument naming what is not as it must be.
GRADRECOMP_API SavedGraph parse_graph(std::string_view text);

}  // namespace gradrecomp::plan
