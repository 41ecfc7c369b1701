// Finds where the time of a program depends on tensor values: the kernels that read them, and the step that computes
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// A tensor whose values loops, addresses or transfers of a kernel read.
struct DataRead {
  std::string tensor;
  bool rows = false;                   ///< only transfers read it: without its values the time is approximate
  std::string function;                ///< function that contains the kernel; empty: the program's body
  std::vector<std::string> operation;  ///< operations of the graph that the kernel computes
};
/// Each tensor once, in text order. For a formal tensor of a function, also the tensors that calls bind to it.
std::vector<DataRead> data_reads(const Program& program);

/// The innermost scope that stores a tensor, as a separate program: its loads become inputs, its stores outputs.
struct DataStep {
  Program program;
  std::string function;
  std::vector<std::string> operation;
};
/// Empty if no scope stores the tensor, or if the step depends on parameters of its function.
std::optional<DataStep> step_that_stores(const Program& program, const std::string& tensor);

}  // namespace tilesim::program
