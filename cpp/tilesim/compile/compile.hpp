// From a Graph and a Machine to a Program.
//
// Steps: graph passes (expansion as the machine wants it) -> placements (which values get bytes, which are views) ->
// kernels (fusion groups) -> lowering of each kernel by its family -> scratchpad addresses -> check.
#pragma once

#include <string>

#include "tilesim/base/cancel.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim {

/// A product that was lowered: where it is, what was to be mapped, and the nest it got.
struct ProductChoice {
  std::string function, operation;
  mapping::Problem problem;
  mapping::Nest nest;
};

struct CompileOptions {
  std::string fuse = "all";                      ///< all | none
  mapping::Table mappings;                       ///< tile sizes by operation name; others as `mapping` says
  std::string mapping = "heuristic";             ///< one of mapping::strategies()
  std::string only;                              ///< lower only the product of this name (and calls): to time it alone
  std::vector<ProductChoice>* record = nullptr;  ///< gets every product
  std::int64_t cores = 0;                        ///< that share the work; 0: all of the machine
  CancelToken* cancel = nullptr;
};

/// Throws Unsupported naming the operation that the machine cannot run, UserError when no tile fits the scratchpad.
program::Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options = {});

/// Kinds with a lowering (directly or through expansion).
bool has_lowering(Kind kind);

}  // namespace tilesim
