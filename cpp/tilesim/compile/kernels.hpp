// Queries on single kernels (given mapping, split, estimates, contexts), and the choice of their lowering.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether the kernel is tiled as a vector or movement kernel.
bool tiled(const Kernel& kernel);

/// Whether options give a nest for this kernel. The nest is used as it is or rejected; the kernel is never split.
bool is_given(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options);

/// Whether options request only this kernel, or it is a call, which may contain it.
bool is_only(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options);

/// Whether the kernel is a concat whose parts' producers all store into its result: its scope is then empty.
bool joined_already(const GraphFunction& function, const Kernel& kernel, const program::Statement& statement);

/// Splits the kernel's fused operations: first sibling products, then a reduction after a product, then operations that
/// feed the product, then everything. False when nothing is left to split.
bool take_apart(const GraphFunction& function, const Kernel& kernel, const Refusal& refused, const KeptApart& before,
                KeptApart& kept_apart);

/// Whether operations of the kind need whole rows on chip, and cannot be lowered if these do not fit.
bool holds_whole_rows(Kind kind);

/// Adds the closed-form estimates of the kernel with these choices.
void add_prices(KernelFacts& facts, std::span<const ProductChoice> products, std::span<const VectorChoice> vectors);

/// Lowers a kernel other than a call with the loops of its family.
Lowered lower_by_family(Context& context, const Kernel& kernel);

/// The statement that calls a function of the graph. Throws CannotRun for a kind without a lowering.
program::Call call_of(const Context& context, const Op& op);

/// Numbers of the functions that call operations refer to.
std::set<std::int32_t> called_functions(const Graph& graph);

/// The facts on a kernel that passes need, without its estimates.
KernelFacts facts_of(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                     std::int64_t most_contexts);

/// Number of contexts per core that share the kernel, at most `most`.
std::int64_t contexts_of_kernel(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                                std::int64_t most);

}  // namespace tilesim::lower
