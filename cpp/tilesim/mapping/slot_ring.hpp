// A ring of buffers in a core's scratchpad, named like the slot of the program that it becomes.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/base/dtype.hpp"

namespace tilesim::mapping {

struct SlotRing {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 1, depth = 1;
  bool sums = false;  ///< written by an array
};

}  // namespace tilesim::mapping
