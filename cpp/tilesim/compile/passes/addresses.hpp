// Where the slots of a kernel lie in the memories of a core.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Bytes that a scope's slots and those of the scopes inside hold at once.
struct Held { std::int64_t scratchpad = 0, accumulator = 0; };
Held held(const program::Scope& scope);

/// Why a kernel does not fit the memories of the machine's core; none: it does.
std::optional<Refusal> misfit(const program::Scope& kernel, const Share& machine);

enum class End : std::uint8_t { low, high };
/// Gives each slot of a kernel an address, at one end of each memory: those of inner scopes after what the scopes
/// around them hold, scopes that follow each other at the same place.
void place_slots(program::Scope& kernel, const Share& machine, End end);

}  // namespace tilesim::lower
