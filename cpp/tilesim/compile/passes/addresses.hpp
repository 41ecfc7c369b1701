// Assigns addresses to the slots of a kernel in the memories of a core, and reuses the space of operands for results.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Bytes that a scope's slots and those of the scopes inside hold at once.
struct Held { std::int64_t scratchpad = 0, accumulator = 0; };
Held held(const program::Scope& scope);

/// Why a kernel does not fit the memories of the machine's core; none: it does.
std::optional<Refusal> misfit(const program::Scope& kernel, const Share& machine);

/// Gives every slot its address, the only place that does. A slot lives as long as its scope: slots of inner scopes lie
/// behind those of the scopes around them, scopes that follow each other share bytes. Where kernels overlap, neighbours
/// live at one time: they take turns at the two ends of each memory, or of what values that stay leave of it, so that
/// the next one's tiles find room.
void give_addresses(program::Program& program, const Share& machine, const std::vector<Resident>& residents);

/// Lets a result of an elementwise kernel lie in memory where a temporary lies, or the state that it is the new value
/// of, that the kernel reads last. Only where each element is loaded once, and stored to by what was computed of that
/// load; where all other readers are complete before; both alike in shape, type and layout.
void lie_over_dying(Lowering& lowering);

}  // namespace tilesim::lower
