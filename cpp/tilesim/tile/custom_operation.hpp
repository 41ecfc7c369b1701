// Operands and results of a user-defined operation as dense arrays.
#pragma once

#include <functional>

#include "tilesim/base/array.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Calls `run(operands, results)` with dense copies of the views' elements, and writes the results back.
void on_arrays(const Opaque& opaque, const std::function<void(const std::vector<Array>&, std::vector<Array>&)>& run);

}  // namespace tilesim
