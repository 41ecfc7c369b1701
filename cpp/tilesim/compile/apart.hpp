// Cost of attention as separate primitive operations. The compiler compares it with the cost of one fused kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/prepare/prepare.hpp"

namespace tilesim {

/// The program before passes (see `lowered`), for `machine`, the share that each of `contexts` contexts has of `whole`.
lower::Lowering lowered_on(const Graph& graph, const Share& machine, const CompileOptions& options,
                           std::int64_t contexts, const Share& whole);

/// Returns a function that lowers one attention, expanded into primitives, and sums the mapping's estimates of its
/// kernels. If values between them may stay on chip (`stays`), which estimates do not know, it simulates the program,
/// where that is possible. The function keeps references to the arguments.
lower::ApartCycles apart_prices(const Share& machine, const CompileOptions& options, std::int64_t contexts);

}  // namespace tilesim
