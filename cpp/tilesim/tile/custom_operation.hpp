// Passes operands and results of a user-defined operation as dense arrays.
#pragma once

#include <functional>

#include "tilesim/base/array.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Copies the views' elements to dense arrays, calls `run(operands, results)`, and copies the results back.
void on_arrays(const Opaque& opaque, const std::function<void(const std::vector<Array>&, std::vector<Array>&)>& run);

}  // namespace tilesim
