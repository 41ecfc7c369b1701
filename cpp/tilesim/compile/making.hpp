// A graph lowered for a number of cores, from which the passes produce the program.
#pragma once

#include <memory>
#include <string>

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim {

class Making {
 public:
  virtual ~Making() = default;
  /// The program after all passes, with values between kernels kept on chip according to `residency`.
  virtual program::Program finished(const std::string& residency) = 0;
  /// Passes the choices to the records that options name.
  virtual void tell() = 0;
};

/// Keeps references to its arguments. `known`: for the same machine with other options; equal kernels reuse mappings.
std::unique_ptr<Making> making(const Graph& graph, const Machine& machine, const CompileOptions& options,
                               const Making* known = nullptr);

}  // namespace tilesim
