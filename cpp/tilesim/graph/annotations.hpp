// Keeps annotations of values when functions change. Internal to this module.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Before `from` becomes `to`: which takes the annotation unless it has one of its own. False: they differ.
bool share_sharding(GraphFunction& function, ValueId from, ValueId to);

}  // namespace tilesim::edit
