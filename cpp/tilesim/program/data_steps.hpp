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
  bool rows = false;                   ///< only transfers go through it: without its values time is known roughly
  std::string function;                ///< whose body the kernel is in; empty: the program's
  std::vector<std::string> operation;  ///< of the graph that the kernel serves
};
/// In the order of the text, each tensor once; of a function's own names for tensors also what calls pass for them.
std::vector<DataRead> data_reads(const Program& program);

/// The innermost scope that stores a tensor, as a separate program: what it loads are inputs, what it stores outputs.
struct DataStep {
  Program program;
  std::string function;
  std::vector<std::string> operation;
};
/// None: nothing stores it, or the step depends on parameters of the function it is in.
std::optional<DataStep> step_that_stores(const Program& program, const std::string& tensor);

}  // namespace tilesim::program
