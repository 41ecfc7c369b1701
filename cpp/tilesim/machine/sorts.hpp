// Core types in a machine file: {"cores": [{"sort": "big", "count": 2, "core": {...}}, ...]}.
#pragma once

#include <string>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// Reads the list of core types; the settings of a type are those of machine.core except for its changes.
void read_sorts(Machine& machine, const Json& json);
Json sorts_json(const Machine& machine);
/// Applies the changes of every type to machine.core and counts the cores. UserError for a clock above core.clock.
void resolve_sorts(Machine& machine);
/// Replaces path "cores", "cores.<sort>.count" or "cores.<sort>.core.<setting>"; false: another path.
bool replace_in_sorts(Machine& machine, const std::string& path, const Json& value);

}  // namespace tilesim
