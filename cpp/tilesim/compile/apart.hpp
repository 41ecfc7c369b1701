// Cost of attention as separate primitive operations. The compiler compares it with the cost of one fused kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim {

/// `lowered` on a share that a context has; `whole`: as it is in the program.
lower::Lowering lowered_on(const Graph& graph, const Share& machine, const CompileOptions& options,
                           std::int64_t contexts, const Share& whole);

/// Lowers an attention alone, expanded, and adds up what the mapping expects of its kernels. Refers to what it is made
/// of.
lower::ApartCycles apart_prices(const Share& machine, const CompileOptions& options, std::int64_t contexts);

}  // namespace tilesim
