// Core types in a machine file: {"cores": [{"sort": "big", "count": 2, "core": {...}}, ...]}.
#pragma once

#include <string>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

/// Reads the list; every sort's settings are those of machine.core but for its own.
void read_sorts(Machine& machine, const Json& json);
Json sorts_json(const Machine& machine);
/// Applies the changes of every sort to machine.core and counts the cores. UserError for a clock beyond core.clock.
void resolve_sorts(Machine& machine);
/// Path "cores", "cores.<sort>.count" or "cores.<sort>.core.<setting>"; false: none of them.
bool replace_in_sorts(Machine& machine, const std::string& path, const Json& value);

}  // namespace tilesim
