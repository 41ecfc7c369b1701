#include "tilesim/base/json/tree.hpp"

#include "tilesim/base/aside.hpp"

namespace tilesim {

namespace {

/// `budget` minus the number of values in `json`; negative if there are more values.
std::int64_t left_of(const Json& json, std::int64_t budget) {
  if (json.is_array())
    for (const Json& item : json.items())
      if (budget = left_of(item, budget - 1); budget < 0) return budget;
  if (json.is_object())
    for (const auto& [key, item] : json.members())
      if (budget = left_of(item, budget - 1); budget < 0) return budget;
  return budget;
}

}  // namespace

bool has_many_values(const Json& json) {
  constexpr std::int64_t few = 1 << 14;  // freed in a few milliseconds
  return left_of(json, few) < 0;
}

std::shared_ptr<const Json> json_tree(Json json) {
  const bool large = has_many_values(json);
  return freed_aside(std::move(json), large);
}

}  // namespace tilesim
