// Decisions about single kernels: whether the user gave them, how they are split, their cost, and which cores share
// them.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether its tiles are those of a vector or movement kernel.
bool tiled(const Kernel& kernel);

/// A nest from outside is used as it is or refused: the kernel that it was made for stays whole.
bool is_given(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options);

/// Whether it is the one that options ask for alone, or a call, which may hold it.
bool is_only(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options);

/// What makes the parts of a concat has stored them all.
bool joined_already(const GraphFunction& function, const Kernel& kernel, const program::Statement& statement);

/// Takes the kernel's fused operations apart: first products that read the same, a reduction behind a product, then
/// what feeds the product, then everything. False when nothing is left to split.
bool take_apart(const GraphFunction& function, const Kernel& kernel, const Refusal& refused, KeptApart& kept_apart);

/// What cannot be lowered at all where these do not fit.
bool holds_whole_rows(Kind kind);

/// Closed forms of the kernel with these choices.
void add_prices(KernelFacts& facts, std::span<const ProductChoice> products, std::span<const VectorChoice> vectors);

/// Of its family's loops; not for calls.
Lowered lower_by_family(Context& context, const Kernel& kernel);

/// The statement that calls a function of the graph. Throws CannotRun for a kind without a lowering.
program::Call call_of(const Context& context, const Op& op);

/// Functions that operations of kind call name, by number.
std::set<std::int32_t> called_functions(const Graph& graph);

/// What passes know of a kernel, its prices left aside.
KernelFacts facts_of(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                     std::int64_t most_contexts);

/// Contexts of a core that share the kernel. `most`: of the program.
std::int64_t contexts_of_kernel(const GraphFunction& function, const Kernel& kernel, const CompileOptions& options,
                                std::int64_t most);

}  // namespace tilesim::lower
