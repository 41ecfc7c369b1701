// Finds consecutive products that may become one kernel, with their operations and the correspondence of their axes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/chain/plan.hpp"

namespace tilesim::lower {

/// The role of each axis of a value; -1: the value has no such axis.
struct ChainAxes { int lead = -1, row = -1, column = -1, channel = -1; };

/// A value that the vector unit reads after a stage. `axis_of`: per axis of the value, the axis of the stage's result.
struct ChainLeaf {
  ValueId value = no_value;
  std::vector<int> axis_of;
  bool bias = false;   ///< whether it is the bias of the stage's product
  bool whole = false;  ///< it has the result's shape; false: one value per channel
};

struct ChainStageOps {
  int anchor = -1;
  std::vector<int> ops;  ///< operations after the anchor
  ValueId result = no_value;
  ChainAxes x, y;
  int out = -1, in = -1, row = -1, column = -1;  ///< axes of the weights
  std::vector<ChainLeaf> leaves;
};

struct Chain {
  mapping::ChainProblem problem;
  std::array<std::optional<ChainStageOps>, mapping::chain_stages> stages;
};

/// The product kernels as a chain if each is the only reader of the previous result; else the reason why not.
std::variant<Chain, std::string> find_chain(const Context& context, const std::vector<const Kernel*>& kernels);

}  // namespace tilesim::lower
