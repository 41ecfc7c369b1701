// Assigns addresses to a kernel's slots in a core's memories, and reuses the bytes of operands for results.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Most bytes that the slots of a scope and of its inner scopes occupy at one time.
struct Held { std::int64_t scratchpad = 0, accumulator = 0; };
Held held(const program::Scope& scope);

/// Why a kernel does not fit the core's memories; empty if it fits.
std::optional<Refusal> misfit(const program::Scope& kernel, const Share& machine);

/// Assigns the address of every slot; no other function does this. A slot lives as long as its scope: slots of inner
/// scopes follow those of enclosing scopes, and consecutive scopes share bytes. Consecutive kernels that overlap in
/// time use opposite ends of each memory (or of the space that resident values leave), so that the next kernel has
/// space for its tiles.
void give_addresses(program::Program& program, const Share& machine, const std::vector<Resident>& residents);

/// Lets an elementwise kernel store its result over an operand that it is the last to read: a temporary, or the state
/// that the result updates. Requirements: the kernel loads each element once, and overwrites it with a value computed
/// from it; all other readers have completed; shape, type and layout are equal.
void lie_over_dying(Lowering& lowering);

}  // namespace tilesim::lower
