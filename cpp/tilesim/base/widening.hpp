// Finds the dtypes that represent every value of a narrower dtype.
#pragma once

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// Whether `wide` holds every value of `narrow`, a float or integer of 8 bits or fewer; false for any other.
bool holds_narrow(DType wide, DType narrow);

}  // namespace tilesim
