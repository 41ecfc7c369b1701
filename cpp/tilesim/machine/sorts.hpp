// Core types in a machine file: {"cores": [{"sort": "big", "count": 2, "core": {...}}, ...]}.
#pragma once

#include <string>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// Reads the list of core types. The settings of a type are those of machine.core, replaced by its changes.
void read_sorts(Machine& machine, const Json& json);
Json sorts_json(const Machine& machine);
/// Sets the `core` of every type and the number of cores. Throws UserError if a type's clock exceeds core.clock.
void resolve_sorts(Machine& machine);
/// Replaces path "cores", "cores.<type>.count" or "cores.<type>.core.<setting>"; returns false for another path.
bool replace_in_sorts(Machine& machine, const std::string& path, const Json& value);

}  // namespace tilesim
