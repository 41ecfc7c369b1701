// The JSON tree of an entire file, which may have millions of values.
#pragma once

#include <memory>

#include "tilesim/base/json/json.hpp"

namespace tilesim {

bool has_many_values(const Json& json);

/// Wraps a value; a value with very many elements is freed in a separate thread (base/aside.hpp).
std::shared_ptr<const Json> json_tree(Json json);

}  // namespace tilesim
