#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// Keeps the order in which members were added, so that the same content is the same text.
using Json = nlohmann::ordered_json;

/// Where a text comes from, for errors.
struct Source {
  std::string_view function;  ///< "load_plan"
  std::string file;           ///< its name, or "the text"
};

/// One line a member of nested objects; lists stay on theirs.
std::string json_text(const Json& object);

/// Throws:  std::invalid_argument unless `text` is JSON without repeated members.
Json parse_json(const Source& source, std::string_view text);

}  // namespace gradrecomp::plan
