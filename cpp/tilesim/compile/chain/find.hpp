// Finds consecutive products that may become one kernel: their operations and how their axes correspond.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/chain/plan.hpp"

namespace tilesim::lower {

/// Which axis of a value is what; -1: it has none.
struct ChainAxes { int lead = -1, row = -1, column = -1, channel = -1; };

/// A value that the vector unit reads behind a stage; axis_of: the result's axis for each of its axes.
struct ChainLeaf {
  ValueId value = no_value;
  std::vector<int> axis_of;
  bool bias = false;   ///< of the stage's product itself
  bool whole = false;  ///< of the result's shape, not one per channel
};

struct ChainStageOps {
  int anchor = -1;
  std::vector<int> ops;  ///< behind the anchor
  ValueId result = no_value;
  ChainAxes x, y;
  int out = -1, in = -1, row = -1, column = -1;  ///< axes of the weights
  std::vector<ChainLeaf> leaves;
};

struct Chain {
  mapping::ChainProblem problem;
  std::array<std::optional<ChainStageOps>, mapping::chain_stages> stages;
};

/// Product kernels, each the only reader of what the one before makes, as a chain; in words why they are none.
std::variant<Chain, std::string> find_chain(const Context& context, const std::vector<const Kernel*>& kernels);

}  // namespace tilesim::lower
