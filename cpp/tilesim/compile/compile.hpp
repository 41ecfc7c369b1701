// From a Graph and a Machine to a Program.
//
// Steps: graph passes (expansion as the machine wants it) -> placements (which values get bytes, which are views) ->
// kernels (fusion groups) -> lowering of each kernel by its family -> passes over the program (passes/passes.hpp).
#pragma once

#include <string>

#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/prepare/open_loops.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim {

/// Throws CannotRun naming the operation that the machine cannot run, UserError when no tile fits the scratchpad.
program::Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// What `compile` makes before the passes: kernels that are not divided yet, slots without addresses.
lower::Lowering lowered(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// The graph that `compile` lowers: expanded, folded, and divided over the cores where that changes its operations.
Graph prepared_graph(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// Kinds with a lowering (directly or through expansion); communication has none.
bool has_lowering(Kind kind);

}  // namespace tilesim
