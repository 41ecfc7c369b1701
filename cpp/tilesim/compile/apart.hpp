// Cost of attention as separate primitive operations. The compiler compares it with the cost of one fused kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim {

/// `lowered` for a context's share of the machine; `whole`: the machine as in the program.
lower::Lowering lowered_on(const Graph& graph, const Share& machine, const CompileOptions& options,
                           std::int64_t contexts, const Share& whole);

/// Lowers an attention alone, expanded into primitives, and sums the mapping's estimates of its kernels. Keeps
/// references to its arguments.
lower::ApartCycles apart_prices(const Share& machine, const CompileOptions& options, std::int64_t contexts);

}  // namespace tilesim
