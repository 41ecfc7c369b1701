// Finds where a program's time depends on tensor values: the kernels that read them, and the step that computes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// A tensor whose values determine loops, addresses or transfers of a kernel.
struct DataRead {
  std::string tensor;
  bool rows = false;                   ///< only transfers read it: time without its values is approximate
  std::string function;                ///< function that contains the kernel; empty: the main body
  std::vector<std::string> operation;  ///< operations of the graph that the kernel computes
};
/// Returns each tensor once, in text order; for a formal tensor, also the tensors that calls bind to it.
std::vector<DataRead> data_reads(const Program& program);

/// The innermost scope that stores a tensor, as a standalone program: tensors that it loads are inputs, others outputs.
struct DataStep {
  Program program;
  std::string function;
  std::vector<std::string> operation;
};
/// Empty if no scope stores the tensor, or if the step depends on parameters of its function.
std::optional<DataStep> step_that_stores(const Program& program, const std::string& tensor);

}  // namespace tilesim::program
