// A ring of buffers in a core's scratchpad, with the name of its slot in the program.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/base/dtype.hpp"

namespace tilesim::mapping {

struct SlotRing {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 1, depth = 1;
  bool sums = false;  ///< whether an array writes sums into it
};

}  // namespace tilesim::mapping
