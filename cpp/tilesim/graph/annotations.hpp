// Keeps the sharding annotations of values when a pass changes a function. Internal to this module.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Call it before `to` replaces `from`: moves the annotation to `to` if `to` has none. False: the annotations differ.
bool share_sharding(GraphFunction& function, ValueId from, ValueId to);

}  // namespace tilesim::edit
