// Assigns addresses to the slots of a kernel in the memories of a core, and reuses the space of operands for results.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Most bytes that the slots of a scope and its inner scopes take at a time.
struct Held { std::int64_t scratchpad = 0, accumulator = 0; };
Held held(const program::Scope& scope);

/// The reason why a kernel does not fit the core's memories; empty if it fits.
std::optional<Refusal> misfit(const program::Scope& kernel, const Share& machine);

/// Assigns the address of every slot; no other function does. A slot lives as long as its scope: slots of inner scopes
/// follow those of the enclosing scopes, and consecutive scopes share bytes. Adjacent kernels that overlap are live
/// together: they alternate between the two ends of each memory, or of the space left by resident values, so that the
/// next kernel has space for its tiles.
void give_addresses(program::Program& program, const Share& machine, const std::vector<Resident>& residents);

/// Lets an elementwise kernel store its result over an operand that it reads last: a temporary, or the state that the
/// result updates. Required: the kernel loads each element once and overwrites it with a value computed from that load;
/// all other readers are complete before; shape, type and layout are equal.
void lie_over_dying(Lowering& lowering);

}  // namespace tilesim::lower
