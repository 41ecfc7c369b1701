// Reads lists of names from JSON.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"

namespace tilesim {

/// Reads a list of names. Files of an older version have one text in which "+" separates names.
inline std::vector<std::string> names_of(const Json& json) {
  std::vector<std::string> names;
  if (json.kind() != Json::Kind::string) {
    for (const Json& item : json.items()) names.push_back(item.as_string());
    return names;
  }
  const std::string text = json.as_string();
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('+', from), text.size());
    if (end > from) names.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return names;
}

inline Json names_json(const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const std::string& name : names) json.push(name);
  return json;
}

}  // namespace tilesim
