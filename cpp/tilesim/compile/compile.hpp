// Compiles a Graph for a Machine to a Program.
//
// Steps: graph passes (with the expansions that the machine needs) -> placements (values with bytes, views) ->
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

/// Throws CannotRun with the operation that the machine cannot run, and UserError if no tile fits the scratchpad.
program::Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// The program before the passes: kernels are not yet split over cores, and slots have no addresses.
lower::Lowering lowered(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// The graph that `compile` lowers: expanded, folded, and split over the cores if that changes its operations.
Graph prepared_graph(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// Whether a kind has a lowering, directly or through expansion. Communication has none.
bool has_lowering(Kind kind);

}  // namespace tilesim
