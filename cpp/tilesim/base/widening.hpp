// Finds whether a dtype represents every value of a narrower dtype.
#pragma once

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// Whether `wide` represents every value of `narrow`, a float or integer type of at most 8 bits; false for other types.
bool holds_narrow(DType wide, DType narrow);

}  // namespace tilesim
