#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradrecomp::program {

/// Keeps keys in the order in which they are added.
using Json = nlohmann::ordered_json;

/// `json` as the text of a file. What is not UTF-8, as file names may be, is replaced.
inline std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// A list of `json_of(item)`.
template <class Items, class JsonOf>
Json json_list(const Items& items, const JsonOf& json_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace gradrecomp::program
