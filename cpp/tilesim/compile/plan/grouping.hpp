// From a function of the graph to placements and kernels.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// The machine's rules, or generic ones.
struct FusionRules : LoweringProfile::Fusion {
  bool fuse = true;
  static FusionRules of(const Share& machine, const CompileOptions& options);
};

/// Who produces and who reads each value of a function.
struct Uses {
  explicit Uses(const GraphFunction& function);
  std::vector<int> producer;                ///< op index or -1
  std::vector<std::vector<int>> consumers;  ///< op indices, each once
  std::vector<bool> is_output;
};

struct Views;

bool is_vector_kind(Kind kind);   ///< elementwise, convert, reduce, cumulative, window_reduce, iota
bool is_recomputable(Kind kind);  ///< elementwise, convert, iota: cheap to compute again in every reader

/// Kernels of the function in an order where producers precede readers; fills context.placements and declares the
/// temporaries in context.program. `prefix` makes tensor names unique; `boundary` gives tensors of function inputs and
/// outputs.
std::vector<Kernel> plan_function(Context& context, const FusionRules& rules, const std::string& prefix,
                                  const std::map<ValueId, std::string>& boundary,
                                  const std::set<std::string>& kept_apart, bool is_main);

}  // namespace tilesim::lower
