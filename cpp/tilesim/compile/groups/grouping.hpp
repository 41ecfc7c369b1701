// Turns a function of the graph into placements and kernels (fusion groups).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Why a reader of the value gets a separate kernel although it could join.
struct Apart {
  bool by_price = false;
  std::string reason;
};
/// Reasons by name of the value.
struct KeptApart : std::map<std::string, Apart> {
  std::map<std::string, Apart> products;  ///< by name: products whose kernel is separate from their siblings'
};

/// The kernels of the function; producers precede readers. Sets context.placements and declares temporaries in
/// context.program. `prefix`: makes tensor names unique; `boundary`: tensors of function inputs and outputs;
/// `looked_at`: receives every group that a rule considered.
std::vector<Kernel> plan_function(Context& context, const FusionRules& rules, const std::string& prefix,
                                  const std::map<ValueId, std::string>& boundary, const KeptApart& kept_apart,
                                  bool is_main, std::vector<FusionCandidate>* looked_at);

}  // namespace tilesim::lower
