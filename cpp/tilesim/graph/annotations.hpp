// Keeps annotations of values when functions change. Internal to this module.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim::edit {

/// Before `to` replaces `from`: moves the annotation to `to` unless that has one. False: the two annotations differ.
bool share_sharding(GraphFunction& function, ValueId from, ValueId to);

}  // namespace tilesim::edit
