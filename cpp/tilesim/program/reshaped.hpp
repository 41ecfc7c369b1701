// Translates boxes of elements between the shapes of a tensor and its aliases.
#pragma once

#include "tilesim/base/shape.hpp"

namespace tilesim::program {

/// A box of a tensor's elements; both ends are inclusive on every axis.
struct Box { Shape low, high; };

/// A box of shape `to` that contains the elements of a box of shape `from`. `exact`: it contains no other elements.
struct Reshaped {
  Box box;
  bool exact = true;
};
Reshaped reshaped(const Box& box, const Shape& from, const Shape& to);

}  // namespace tilesim::program
