// The boxes of elements that gathers read and scatters write.
#pragma once

#include <algorithm>

#include "tilesim/compile/movement/movement.hpp"

namespace tilesim::lower {

inline bool contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// For every batch position a start, for every start one box of `source`.
struct MovementLowering::Gather {
  Placement source;      ///< one axis (start = sum of components), or the operand's axes with one indexed
  std::size_t axis = 0;  ///< of source, that the starts move along
  std::vector<std::int64_t> batch_axes, box_axes;  ///< of the result
  std::vector<int> box_axis;                       ///< axis of source per box axis
  std::vector<std::int64_t> box_step;
  std::vector<std::int64_t> scale, last;  ///< per component: distance of neighbours in source, last legal start
  std::int64_t span = 1;                  ///< a start of -span puts the whole box outside
  std::size_t along = 0;                  ///< the batch axis that one transfer runs along (index into batch_axes)
  Shape boxes;                            ///< scatter: the tensor of boxes; empty: the result
  std::int64_t component = 0;             ///< the first of the starts' components that `scale` is for
  std::vector<std::size_t> apart;  ///< axes of the source that one component each moves along; empty: `axis` alone
  bool clip = false, fill = false;
};

}  // namespace tilesim::lower
