// Boxes of elements, translated between the shapes of a tensor and of its aliases.
#pragma once

#include "tilesim/base/shape.hpp"

namespace tilesim::program {

/// Elements of a tensor, both ends included per axis.
struct Box { Shape low, high; };

/// A box in `to` around a box of `from`, row-major over the same elements. `exact`: it has no further elements.
struct Reshaped {
  Box box;
  bool exact = true;
};
Reshaped reshaped(const Box& box, const Shape& from, const Shape& to);

}  // namespace tilesim::program
