// The boxes of elements that gathers read and scatters write.
#pragma once

#include <algorithm>

#include "tilesim/compile/movement/movement.hpp"

namespace tilesim::lower {

inline bool contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// A gather: a start for every batch position, one box of `source` for every start.
struct MovementLowering::Gather {
  Placement source;      ///< flat (start = sum of components), or the operand's axes with one indexed
  std::size_t axis = 0;  ///< axis of source along which starts move
  std::vector<std::int64_t> batch_axes, box_axes;  ///< axes of the result
  std::vector<int> box_axis;                       ///< axis of source per box axis
  std::vector<std::int64_t> box_step;
  std::vector<std::int64_t> scale, last;  ///< per component: stride in source, last legal start
  std::int64_t span = 1;                  ///< a start of -span puts the whole box outside
  std::size_t along = 0;                  ///< index into batch_axes of the axis that one transfer covers
  Shape boxes;                            ///< scatter: the tensor of boxes; empty: the result
  std::int64_t component = 0;             ///< the first component that `scale` describes
  std::vector<std::size_t> apart;         ///< axes of the source, one per component; empty: only `axis`
  bool clip = false, fill = false;
};

}  // namespace tilesim::lower
