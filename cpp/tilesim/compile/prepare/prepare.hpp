// Prepares the graph for one machine: expansion, folding, layout copies.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

struct LoopPlan;

struct Prepared {
  Graph graph;
  std::set<std::string> kept_apart;        ///< values that end a kernel although their reader could join it
  std::vector<std::string> notes;          ///< approximations, for the program's notes
  std::vector<FusionCandidate> looked_at;  ///< candidates that are a single operation of the graph (attention)
  std::shared_ptr<const AttentionPlans> attentions;
};

/// Estimated cycles of an attention as primitives: the sum over their kernels.
using ApartCycles = std::function<double(const GraphFunction&, const Op&, bool stays)>;

/// Replaces composites by primitives, folds small constants, removes no-ops, and applies the machine's lowering
/// profile.
Prepared prepare(const Graph& graph, const Share& machine, const CompileOptions& options, const ApartCycles& apart);

/// Folds small constants. Every graph is folded before lowering.
void fold_small(Graph& graph);

/// Replaces a branch by a call of the known side, or of all sides with a select of the result, which adds a note.
void choose_branches(Graph& graph, std::vector<std::string>& notes);

/// Values of a function that equal one constant in all elements and that no kernel reads as a tensor.
std::map<ValueId, double> known_scalars(const Graph& graph, const GraphFunction& function);

/// Integers in a loop's body that follow from its counter by addition, subtraction, multiplication, min and max, and by
/// comparisons and selects with known result; without those that an operation needs as a tensor.
std::map<ValueId, Expr> counted_scalars(const LoopPlan& loop, const std::map<ValueId, double>& known);

/// Removes a value, and the source of its view, from `scalars`, because a loop carries it as a tensor.
void give_bytes(const GraphFunction& function, ValueId value, std::map<ValueId, double>& scalars);

}  // namespace tilesim::lower
